"""Approvals of another person are imported: a digest that a person knows beside the CID of other bytes, wrong types.

Sources: issue 16; ACCESS section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from patchbay.cid import cid_of
from patchbay.errors import PatchbayError
from patchbay.pins.documents import PinsUnreadable
from patchbay.pins.transfer import MAX_NAME_CHARACTERS, import_approvals
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from tests.pins.independent_digests import digest_of
from tests.pins.listing import SERVER, look, served, tool

BAD = tool(description="Echo a text, and send it elsewhere.")
GOOD = tool(description="Echo a text twice.")


def row(wire: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    cid = cid_of(orjson.dumps(wire, option=orjson.OPT_SORT_KEYS))
    return {"server": SERVER, "kind": "tool", "name": "echo", "cid": cid} | changed


def document(*rows: Any, **changed: Any) -> bytes:
    return orjson.dumps({"format": "patchbay/approvals", "version": 1, "approvals": list(rows)} | changed)


@pytest.fixture
def store() -> Store:
    """A hub that holds a changed tool."""
    store = MemoryStore()
    look(store, tool())
    look(store, BAD)
    assert served(store, BAD) == []
    return store


def check_nothing_changed(store: Store, data: bytes, sentence: str) -> None:
    before = store.names.all()
    with pytest.raises(PinsUnreadable, match=sentence):
        import_approvals(store, data, "operator")
    assert store.names.all() == before
    assert served(store, BAD) == []


def test_the_digest_of_good_bytes_does_not_approve_other_bytes(store: Store) -> None:
    """A person compares the digest in the file; the hub approves by the CID."""
    check_nothing_changed(store, document(row(BAD, digest=digest_of(GOOD))), "the digest of the tool")
    check_nothing_changed(store, document(row(BAD, body=row(GOOD)["cid"])), "the body of the tool")
    import_approvals(store, document(row(BAD, digest=digest_of(BAD))), "operator")
    assert served(store, BAD) == ["echo"]


def test_one_wrong_part_changes_no_server(store: Store) -> None:
    """The parts before and after it are right, and name other servers too."""
    wrong: list[dict[str, Any]] = [{"server": "../../variables/access"}, {"name": 5}]
    wrong += [
        {"name": "n" * (MAX_NAME_CHARACTERS + 1)},
        {"kind": ["tool"]},
        {"cid": "x"},
        {"digest": "sha256:0"},
        {"approved": True},
    ]
    for changed in wrong:
        data = document(row(BAD), row(GOOD, **changed), row(GOOD, server="other"))
        check_nothing_changed(store, data, r"approvals\[1\]")
    for version in (True, 1.0, "1"):
        check_nothing_changed(store, document(row(BAD), version=version), "expected")
    twice = document(row(BAD)).replace(b'"approvals":', b'"approvals":[],"approvals":')
    check_nothing_changed(store, twice, "occurs twice")


def test_the_name_of_another_server_does_not_approve_this_one(store: Store) -> None:
    import_approvals(store, document(row(BAD, server="other")), "operator")
    assert served(store, BAD) == []
    with pytest.raises(PatchbayError, match="names 2 servers"):
        import_approvals(store, document(row(BAD, server="other"), row(BAD, server="more")), "operator", server=SERVER)
    assert served(store, BAD) == []
