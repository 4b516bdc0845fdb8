"""A collection of blobs keeps what pins name: the approved descriptors, the waiting ones, and past documents."""

from __future__ import annotations

import pytest

from patchbay.catalogue.contents.collection import Collector
from patchbay.pins.approval import approve
from patchbay.pins.explanation import explain
from patchbay.pins.records import load_pins
from patchbay.stores.memory import MemoryStore
from patchbay.topics import PINS
from tests.clocks import Clock
from tests.pins.listing import SERVER, look, tool

GRACE = 3600.0


def test_no_collection_deletes_what_pins_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """N4: old and new stand side by side on the page also after a year."""
    clock = Clock(monkeypatch)
    store = MemoryStore()
    look(store, tool())
    look(store, tool(title="second"))
    approve(store, SERVER, "operator")
    look(store, tool(title="third"))
    lost = store.blobs.put(b"nothing names this")
    clock.now += 365 * 24 * GRACE
    assert Collector(store, GRACE).collect().count == 1
    assert store.blobs.missing([lost]) == [lost]
    document = load_pins(store, SERVER).document
    assert document is not None
    found = explain(store.blobs, document, ("tool", "echo"))
    assert found.problem == "" and [(part.label, part.old, part.new) for part in found.parts] == [
        ("Title", "second", "third")
    ]
    assert store.blobs.missing([move.cid for move in store.names.past(PINS + SERVER) if move.cid]) == []


def test_a_document_alone_reaches_the_descriptors_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the history name descriptors too; without them the document is enough."""
    clock = Clock(monkeypatch)
    whole = MemoryStore()
    look(whole, tool())
    look(whole, tool(title="second"))
    cid = whole.names.get(PINS + SERVER)
    assert cid is not None
    store = MemoryStore()
    document = load_pins(whole, SERVER).document
    assert document is not None
    item = document.items["tool", "echo"]
    for pin in (item.approved, item.seen):
        assert pin is not None
        store.blobs.put(whole.blobs.get(pin.cid))
    store.names.move({PINS + SERVER: store.blobs.put(whole.blobs.get(cid))}, "somebody", "copy")
    clock.now += 2 * GRACE
    assert Collector(store, GRACE).collect().count == 0
