"""The document of pins: its strict form, and digests that an independent program computes alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.cid import cid_of
from patchbay.pins.documents import (
    CHANGES,
    ItemKey,
    Pin,
    PinDocument,
    PinnedItem,
    PinsUnreadable,
    make_pin,
    parse_document,
)
from tests.pins.independent_digests import digest_of
from tests.pins.listing import tool

SCRIPT = Path(__file__).with_name("independent_digests.py")
CID = cid_of(b"x")
GOOD: dict[str, Any] = {"version": 1, "changes": "hold", "sources": [""], "items": [], "ready": []}
ROW = {"kind": "tool", "name": "a", "approved": {"cid": CID, "body": CID}}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
cids = st.binary(max_size=4).map(cid_of)
pins = st.builds(Pin, cids, cids, st.just("sha256:" + "0" * 64) | st.just(""))
keys: st.SearchStrategy[ItemKey] = st.one_of(
    st.tuples(st.just("tool"), texts.filter(bool)),
    st.tuples(st.just("prompt"), texts.filter(bool)),
    st.just(("introduction", "")),
)
items = st.builds(PinnedItem, pins | st.none(), pins | st.none())
documents = st.builds(
    PinDocument,
    st.sampled_from(CHANGES),
    st.frozensets(texts, max_size=3),
    st.dictionaries(keys, items, max_size=5),
    st.dictionaries(keys, st.frozensets(cids, min_size=1, max_size=2), max_size=2),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(documents)
@settings(deadline=None)
def test_a_document_is_read_as_it_was_written(document: PinDocument) -> None:
    assert parse_document(document.to_bytes()) == document


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": 2}, "expected version 1"),
        ({"changes": "allow"}, "changes: expected one of hold, tell, follow"),
        ({"sources": [1]}, "sources: expected a list of strings"),
        ({"items": {}}, "items: expected a list"),
        ({"items": [{"kind": "tool", "name": "a"}]}, r"items\[0\]: expected an object with the fields"),
        ({"items": [ROW | {"more": 1}]}, r"items\[0\]: expected an object with the fields"),
        ({"items": [ROW, ROW]}, r"items\[1\]: expected each entry once"),
        ({"items": [ROW | {"kind": "resource"}]}, r"items\[0\].kind: expected one of tool"),
        ({"items": [ROW | {"name": ""}]}, r"items\[0\].name: expected a name"),
        ({"items": [ROW | {"approved": {"cid": "x", "body": CID}}]}, r"items\[0\].approved.cid: expected a CID"),
        ({"items": [ROW | {"seen": {"cid": CID, "body": CID, "digest": "sha256:1"}}]}, "64 hexadecimal digits"),
        ({"ready": [{"kind": "tool", "name": "a"}]}, r"ready\[0\]: expected an object"),
        ({"extra": 1}, "the document: expected an object with the fields"),
    ],
)
def test_a_document_with_a_wrong_part_is_refused_with_its_place(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(PinsUnreadable, match=said):
        parse_document(orjson.dumps(GOOD | changed))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"version":1,"version":1}', b"\xff"])
def test_bytes_that_are_not_a_document_are_refused(data: bytes) -> None:
    with pytest.raises(PinsUnreadable):
        parse_document(data)


@given(texts.filter(bool), texts, st.dictionaries(texts, values, max_size=4), values)
@settings(deadline=None)
def test_the_digest_of_a_tool_is_that_of_an_independent_program(
    name: str, description: str, schema: dict[str, Any], meta: Any
) -> None:
    """Issue 16: digests equal those computed from SEP-1766 by an independent script."""
    wire = {"name": name, "description": description, "inputSchema": schema, "_meta": meta}
    assert make_pin("tool", wire).digest == digest_of(wire)


def test_the_independent_program_prints_the_digests_of_a_list() -> None:
    found = [tool("a", "x\u202ey"), tool("b", outputSchema={"type": "object", "maximum": 1e21, "minimum": 0.000001})]
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPT)], input=json.dumps(found), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{make_pin('tool', one).digest} {one['name']}" for one in found]


def test_each_byte_of_a_tool_changes_its_pin_and_the_name_alone_keeps_its_body() -> None:
    """N4: annotations and icons are part of the pin though SEP-1766 leaves them out of its digest."""
    first = make_pin("tool", tool())
    marked = make_pin("tool", tool(annotations={"destructiveHint": False}))
    assert marked.digest == first.digest and marked.cid != first.cid
    renamed = make_pin("tool", tool("other"))
    assert renamed.body == first.body and renamed.cid != first.cid and renamed.digest != first.digest
