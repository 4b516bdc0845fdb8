"""An editor and the watcher change the names of one server at once: neither goes back behind the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.rows import parse_row
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.errors import PatchbayError
from patchbay.store import Store
from patchbay.stores.sqlite import SqliteStore
from patchbay.topics import SERVERS
from tests.waiting import until

WRITERS, CHANGES = 4, 60
DEFINITION = b"def count() -> int:\n    return %d\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = SqliteStore(tmp_path / "data")
    yield one
    one.close()


def test_no_acknowledged_change_is_lost_while_watchers_import(tmp_path: Path, store: Store) -> None:
    """Each writer adds one to the number that it read. So the last number is the number of acknowledged changes."""
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "counter.py").write_bytes(DEFINITION % 0)
    watchers = [WatchedFolder(store, folder) for _ in range(2)]
    until(lambda: (watchers[0].scan(), store.names.get(f"{SERVERS}counter"))[1], "the server")
    editor, ending = ServerEditor(store, folder), threading.Event()

    def watch(watcher: WatchedFolder) -> None:
        while not ending.is_set():
            watcher.scan()

    def definition() -> tuple[str, int]:
        cid = store.names.get(f"{SERVERS}counter")
        assert cid is not None
        found = parse_row("counter", store.blobs.get(cid)).definition_cid
        return found, int(store.blobs.get(found).split()[-1])

    def write(_: int) -> int:
        acknowledged = 0
        while acknowledged < CHANGES // WRITERS:
            base, number = definition()
            try:
                editor.definition("counter", "python", DEFINITION % (number + 1), base, "ann", "add one")
            except PatchbayError:
                continue
            acknowledged += 1
        return acknowledged

    with ThreadPoolExecutor(WRITERS + len(watchers)) as threads:
        watching = [threads.submit(watch, watcher) for watcher in watchers]
        assert sum(threads.map(write, range(WRITERS))) == CHANGES
        ending.set()
        for one in watching:
            one.result()
    until(lambda: not (watchers[0].scan() or watchers[0].is_unsettled()), "the folder is imported")
    assert definition()[1] == CHANGES
