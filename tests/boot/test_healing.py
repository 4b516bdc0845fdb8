"""Damaged and missing bytes of servers and variables are restored from the last root and block nothing."""

from __future__ import annotations

import pytest

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.errors import ConfigError
from patchbay.stores.memory import MemoryStore
from tests.boot.images import booted


def lose(store: MemoryStore, cid: str | None) -> str:
    assert cid is not None
    del store.blobs.contents[cid]  # type: ignore[attr-defined]
    return cid


def test_a_change_restores_lost_bytes_unchanged() -> None:
    store = booted()
    names = store.names.all("variables/") | store.names.all("servers/")
    for cid in set(names.values()):
        lose(store, cid)
    boot.change_names(store, {"variables/new": store.blobs.put(b"1")}, "ann", "more")
    assert (
        store.names.all("variables/").items()
        >= {name: cid for name, cid in names.items() if "variables" in name}.items()
    )
    assert store.blobs.missing(names.values()) == []


def test_reading_a_lost_variable_writes_it_again() -> None:
    store = booted()
    value = boot.read_variable(store, "greeting")
    cid = lose(store, store.names.get("variables/greeting"))
    assert boot.read_variable(store, "greeting") == value
    assert store.blobs.missing([cid]) == []


def test_a_lost_variable_can_be_set_and_taken_away() -> None:
    for after in (b"other", None):
        store = booted()
        lose(store, store.names.get("variables/greeting"))
        cid = None if after is None else store.blobs.put(after)
        boot.change_names(store, {"variables/greeting": cid}, "ann", "mend")
        assert store.names.get("variables/greeting") == cid


def test_bytes_that_the_root_does_not_have_are_reported_with_the_next_step() -> None:
    store = booted()
    store.names.move({"variables/greeting": store.blobs.put(b"behind the root")}, "x", "y")
    cid = lose(store, cid_of(b"behind the root"))
    with pytest.raises(ConfigError, match=rf"variables/greeting: expected its content, {cid}.*Set it again") as refused:
        boot.read_variable(store, "greeting")
    assert refused.value.where == "variables/greeting"
    assert boot.change_names(store, {"variables/other": store.blobs.put(b"1")}, "ann", "more")
