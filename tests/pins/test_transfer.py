"""Approvals as a document: what one hub exports, another one takes over, for exactly the same bytes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay.cid import cid_of
from patchbay.errors import InvalidParams
from patchbay.pins.approval import approve
from patchbay.pins.documents import PinsUnreadable
from patchbay.pins.records import load_pins
from patchbay.pins.transfer import Imported, export_approvals, import_approvals
from patchbay.stores.memory import MemoryStore
from patchbay.topics import PINS
from tests.pins.independent_digests import digest_of
from tests.pins.listing import SERVER, look, reasons, served, tool

NEW = tool(description="Echo a text twice.")
ROW = {"server": SERVER, "kind": "tool", "name": "echo", "cid": cid_of(b"x")}


def document(*rows: Any, **changed: Any) -> bytes:
    return orjson.dumps({"format": "patchbay/approvals", "version": 1, "approvals": list(rows)} | changed)


def approved_hub() -> MemoryStore:
    """A hub where the second version of the tool is approved."""
    store = MemoryStore()
    look(store, tool())
    look(store, NEW)
    approve(store, SERVER, "ann@example.org")
    return store


def test_an_export_names_digests_and_imported_again_it_changes_nothing() -> None:
    """N4: approvals name CIDs, and are exported and imported."""
    store = approved_hub()
    data = export_approvals(store)
    rows = orjson.loads(data)["approvals"]
    assert [row["kind"] for row in rows] == ["introduction", "tool"]
    assert rows[1]["digest"] == digest_of(NEW)
    assert rows[1]["cid"] == cid_of(orjson.dumps(NEW, option=orjson.OPT_SORT_KEYS))
    before = store.names.get(PINS + SERVER)
    assert import_approvals(store, data, "operator") == Imported(known=2)
    assert store.names.get(PINS + SERVER) == before


def test_another_hub_approves_the_waiting_bytes_at_once() -> None:
    other = MemoryStore()
    look(other, tool())
    look(other, NEW)
    assert served(other, NEW) == []
    data = export_approvals(approved_hub())
    assert import_approvals(other, data, "ben@example.org", "as at the other hub") == Imported(approved=1, known=1)
    assert served(other, NEW) == ["echo"]
    assert reasons(other, PINS + SERVER)[0] == ("ben@example.org", "import 1 approvals: as at the other hub")
    assert orjson.loads(export_approvals(other)) == orjson.loads(data)


def test_an_approval_waits_for_its_bytes_and_lapses_with_them() -> None:
    other = MemoryStore()
    look(other, tool())
    assert import_approvals(other, export_approvals(approved_hub()), "operator") == Imported(ready=1, known=1)
    look(other, tool(description="Another change."))
    assert served(other, tool(description="Another change.")) == []
    look(other, NEW)
    assert served(other, NEW) == ["echo"] and served(other, tool()) == []
    assert reasons(other, PINS + SERVER)[0][1] == "approved by an import: tool echo"


def test_a_server_with_imported_approvals_has_no_first_sight() -> None:
    other = MemoryStore()
    assert import_approvals(other, export_approvals(approved_hub()), "operator") == Imported(ready=2)
    look(other, NEW, tool("more"))
    assert served(other, NEW, tool("more")) == ["echo"]


def test_the_server_may_have_another_name_here() -> None:
    other = MemoryStore()
    look(other, NEW, server="near")
    assert import_approvals(other, export_approvals(approved_hub()), "operator", server="near") == Imported(known=2)
    assert load_pins(other, SERVER).document is None
    with pytest.raises(InvalidParams, match="the document names 2 servers; expected one for the name 'near'"):
        import_approvals(other, document(ROW, ROW | {"server": "b"}), "operator", server="near")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected JSON"),
        (b"[]", "the document: expected an object"),
        (document(format="other"), 'expected "format": "patchbay/approvals" and "version": 1'),
        (document(version=2), 'expected "format"'),
        (document(approvals={}), "approvals: expected a list"),
        (document(ROW, ROW | {"cid": "sha256:1"}), r"approvals\[1\].cid: expected a CID"),
        (document(ROW, ROW | {"kind": "resource"}), r"approvals\[1\].kind: expected one of"),
        (document(ROW, ROW | {"server": "../x"}), r"approvals\[1\].server: expected the name of a server"),
        (document(ROW, ROW | {"digest": "md5:1"}), r"approvals\[1\].digest: expected sha256:"),
        (document(ROW, ROW | {"grant": "all"}), r"approvals\[1\]: expected an object with the fields"),
        (document(ROW, "echo"), r"approvals\[1\]: expected an object"),
    ],
)
def test_a_document_with_a_wrong_part_changes_nothing(data: bytes, said: str) -> None:
    store = MemoryStore()
    look(store, tool())
    before = store.names.all()
    with pytest.raises(PinsUnreadable, match=said):
        import_approvals(store, data, "operator")
    assert store.names.all() == before


def test_pins_that_cannot_be_read_are_neither_exported_nor_changed_by_an_import() -> None:
    store = approved_hub()
    store.names.move({PINS + SERVER: store.blobs.put(b"{}")}, "somebody", "damage")
    with pytest.raises(InvalidParams, match="cannot be read"):
        export_approvals(store)
    with pytest.raises(InvalidParams, match="cannot be read"):
        import_approvals(store, document(ROW, ROW | {"server": "other"}), "operator")
    assert store.names.get(PINS + "other") is None
