"""Many files in the watched folder: few transactions, and nothing lost when the hub is killed between them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.catalogue import Catalogue
from patchbay.settings import Settings
from patchbay.stores import open_store
from patchbay.stores.sqlite.database import Database
from tests.checkout import ROOT

FILES = 60

KILLED = """
import itertools, os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from patchbay.catalogue.catalogue import Catalogue
from patchbay.settings import Settings
from patchbay.stores import open_store
from patchbay.stores.sqlite.database import Database

data, servers, wanted, inside = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "inside"
write, numbers = Database.write, itertools.count(1)

@contextmanager
def killing(self, durable=True):
    number = next(numbers)  # also right when several threads write
    with write(self, durable) as connection:
        yield connection
        if number == wanted and inside:
            os.kill(os.getpid(), signal.SIGKILL)
    if number == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

store = open_store("sqlite", data)
Database.write = killing
Catalogue(store, Settings(data=data, servers=servers)).start()
"""


def prepare(folder: Path) -> Settings:
    data, servers = folder / "data", folder / "servers"
    data.mkdir()
    servers.mkdir()
    for number in range(FILES):
        (servers / f"s{number}.py").write_text(f"def f{number}() -> str:\n    return ''\n")
    return Settings(data=data, servers=servers)


def test_many_new_files_take_few_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 14, item 5: each transaction waits for the disk."""
    settings, write, count = prepare(tmp_path), Database.write, [0]

    def counted(self: Database, durable: bool = True) -> Any:
        count[0] += durable
        return write(self, durable)

    monkeypatch.setattr(Database, "write", counted)
    store = open_store("sqlite", settings.data)
    catalogue = Catalogue(store, settings)
    catalogue.start()
    assert len(catalogue.all()) == FILES
    catalogue.close()
    store.close()
    assert count[0] < FILES / 2


@pytest.mark.parametrize(
    ("transaction", "place"), [(1, "inside"), (2, "after"), (4, "after"), (5, "inside"), (7, "after")]
)
@pytest.mark.slow
def test_a_hub_that_is_killed_between_batches_serves_all_files_after_its_restart(
    tmp_path: Path, transaction: int, place: str
) -> None:
    """Issue 14, item 5: the crash case of blobs in batches"""
    settings = prepare(tmp_path)
    command = [sys.executable, "-c", KILLED, settings.data, settings.servers, str(transaction), place]
    done = subprocess.run([str(each) for each in command], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    store = open_store("sqlite", settings.data)
    names = store.names.all()
    assert store.blobs.missing(names.values()) == []
    catalogue = Catalogue(store, settings)
    catalogue.start()
    assert {name: list(catalogue.find(name).tools) for name in (f"s{n}" for n in range(FILES))} == {
        f"s{n}": [f"f{n}"] for n in range(FILES)
    }
    catalogue.close()
    store.close()
