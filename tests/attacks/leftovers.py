"""What is left in the store of a hub after an attack, counted entry by entry, and hubs that share one store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from patchbay.store import Store
from tests.access.team import new_key
from tests.hubs import Hub
from tests.waiting import until

DEFINITION = '''"""Answers of any size."""


def large(size: int, mark: str = "x") -> str:
    """Give a long text."""
    return (mark * size)[:size]
'''

FILES = {"large.py": DEFINITION, "large.mcp.json": '{"auto_discover": true, "isolation": "inline"}'}

PAGE = 1000


class Left(NamedTuple):
    """Entries of the journal, and the bytes of their data."""

    entries: int
    bytes: int


def left(store: Store, *prefixes: str) -> Left:
    """Return the entries in the journal of a store whose topics begin with one of some prefixes; without any, all."""
    assert store.transfer is not None
    found, after = Left(0, 0), 0
    while rows := store.transfer.entries(after, PAGE):
        after = rows[-1].seq
        here = [row for row in rows if row.topic.startswith(prefixes or ("",))]
        found = Left(found.entries + len(here), found.bytes + sum(len(row.data) for row in here))
    return found


def settled() -> None:
    """Wait for the calls that survive their connection: one deletes old answers of its caller after its own is sent."""
    threads = threading.enumerate
    until(lambda: not any(one.name == "surviving call" for one in threads()), "no surviving call deletes old answers")


def shared_hub(folder: Path, files: Mapping[str, str] = FILES, **settings: Any) -> Hub:
    """Return a shared hub with its default quotas, whose store can be counted."""
    return Hub(folder, files, **({"access": "shared", "store": "sqlite"} | settings))


@contextmanager
def two_nodes(folder: Path, address: str, **settings: Any) -> Iterator[tuple[Hub, Hub]]:
    """Two hubs on one database."""
    (folder / "key").write_text("ab" * 32)
    own = {"store": address, "key_file": str(folder / "key")} | settings
    one, other = (shared_hub(folder / name, **own) for name in ("one", "other"))
    try:
        yield one, other
    finally:
        one.close()
        other.close()


def attacker(hub: Hub, name: str = "attacker") -> dict[str, str]:
    """Return the headers of a new key, with a host."""
    return {"Host": "localhost", **new_key(hub, name)}
