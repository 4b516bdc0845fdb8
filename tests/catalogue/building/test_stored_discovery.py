"""Discoveries in the store: a definition that was read once is not read again, and its descriptors stay the same."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.building import stored_discovery
from patchbay.catalogue.building.stored_discovery import (
    DISCOVERING_CODE,
    KEPT_SECONDS,
    MAX_RECENT,
    RECENT,
    RecentDiscoveries,
    StoredDiscoveries,
    discovery_topic,
    read_definition,
)
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.cid import cid_of
from patchbay.errors import ConfigError
from patchbay.stores.memory import MemoryStore
from patchbay.topics import DISCOVERED
from tests.source_modules import read
from tests.test_layers import graph_of

SOURCE = '''"""A server."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class Point:
    x: float
    y: float = float("inf")


def main(point: Point, mode: Literal["a", "b"] = "a", *, tags: list[str] | None = None) -> dict[str, int]:
    """Move a point.

    :param mode: how
    """
    return {}


async def count(to: int):
    """Count."""
    yield to


def hidden(*args):
    return args
'''
DEFINITIONS = {
    "python": SOURCE,
    "shell": "# @describe Say the date.\n# @arg date! The date.\n@bash_command date\n",
}


def refuse(*_: Any) -> Any:
    raise AssertionError("the definition was read again")


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_stored_discovery_equals_a_new_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 14, item 5"""
    store, source = MemoryStore(), DEFINITIONS[kind].encode()
    row = ServerRow("walk", kind, cid_of(source))
    first = StoredDiscoveries(store)
    made = first.read(row, source)
    assert made == read_definition(row, source)
    first.save()
    RECENT.clear()
    monkeypatch.setattr(stored_discovery, "read_definition", refuse)
    found = StoredDiscoveries(store).read(row, source)
    assert (found, [one.digest for one in found.descriptors]) == (
        made,
        [one.digest for one in made.descriptors],
    )


def test_a_hub_that_starts_again_reads_no_definition_again(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 14, item 5"""
    for number in range(3):
        bench.plug(f"s{number}", f"def f{number}() -> str:\n    return ''\n")
    bench.open()
    RECENT.clear()
    monkeypatch.setattr(stored_discovery, "discover", refuse)
    again = bench.open()
    assert [list(again.find(f"s{number}").tools) for number in range(3)] == [["f0"], ["f1"], ["f2"]]


@pytest.mark.parametrize(
    "data",
    [b"", b"not compressed", zlib.compress(b"[1]"), zlib.compress(b'{"python walk CID": {"descriptors": 1}}')],
    ids=["empty", "not compressed", "no object", "another form"],
)
def test_a_stored_discovery_that_cannot_be_read_is_made_again(data: bytes) -> None:
    store, source = MemoryStore(), SOURCE.encode()
    row = ServerRow("walk", "python", cid_of(source))
    store.journal.append(f"{discovery_topic()}", data.replace(b"CID", row.definition_cid.encode()), KEPT_SECONDS)
    assert StoredDiscoveries(store).read(row, source) == read_definition(row, source)


def test_the_version_covers_the_code_that_reads_definitions() -> None:
    """A change of this code makes new discoveries. Errors and interfaces have no part in the result."""
    graph = graph_of(read("patchbay/**/*.py"))
    readers = ("kinds.discovery", "python_functions", "kinds.shell.discovery")
    used = {name for reader, names in graph.items() if reader.startswith(readers) for name in names}
    package = Path(stored_discovery.__file__).parents[2]
    covered = {file for pattern in DISCOVERING_CODE for file in package.glob(pattern)}
    beside = {name for name in used if package.joinpath(*name.split(".")).with_suffix(".py") not in covered}
    assert beside == {"descriptors", "errors", "kind"}


def test_another_version_of_the_code_makes_its_own_discoveries(monkeypatch: pytest.MonkeyPatch) -> None:
    store, source = MemoryStore(), SOURCE.encode()
    row = ServerRow("walk", "python", cid_of(source))
    first = StoredDiscoveries(store)
    first.read(row, source)
    first.save()
    RECENT.clear()
    monkeypatch.setattr(stored_discovery, "discovery_topic", lambda: f"{DISCOVERED}later")
    monkeypatch.setattr(stored_discovery, "read_definition", refuse)
    with pytest.raises(AssertionError, match="read again"):
        StoredDiscoveries(store).read(row, source)


def test_a_discovery_in_the_second_half_of_its_life_is_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, source = MemoryStore(), SOURCE.encode()
    row = ServerRow("walk", "python", cid_of(source))
    topic = f"{discovery_topic()}"
    for expected in (1, 1, 2):
        if expected == 2:
            monkeypatch.setattr(stored_discovery, "KEPT_SECONDS", -1.0)
        discoveries = StoredDiscoveries(store)
        discoveries.read(row, source)
        discoveries.save()
        assert len(store.journal.read(topic)) == expected


def test_a_definition_that_cannot_be_read_is_refused_each_time() -> None:
    discoveries, source = StoredDiscoveries(MemoryStore()), b"def f(:\n"
    for _ in range(2):
        with pytest.raises(ConfigError, match="line 1"):
            discoveries.read(ServerRow("walk", "python", cid_of(source)), source)


def test_a_definition_that_was_read_recently_is_not_read_again_under_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recent, source = RecentDiscoveries(), SOURCE.encode()
    row = ServerRow("walk", "python", cid_of(source))
    made = recent.read(row, source)
    monkeypatch.setattr(stored_discovery, "discover", refuse)
    assert recent.read(row, source) is made
    for other in (replace(row, name="run"), replace(row, kind="shell"), replace(row, definition_cid=cid_of(b"other"))):
        with pytest.raises(AssertionError, match="read again"):
            recent.read(other, source)


def test_the_oldest_of_many_recent_discoveries_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentDiscoveries()
    sources = [b"# %d\n" % number for number in range(MAX_RECENT + 1)]
    rows = [ServerRow("walk", "python", cid_of(source)) for source in sources]
    for row, source in zip(rows, sources, strict=True):
        recent.read(row, source)
    monkeypatch.setattr(stored_discovery, "discover", refuse)
    recent.read(rows[-1], sources[-1])
    with pytest.raises(AssertionError, match="read again"):
        recent.read(rows[0], sources[0])
