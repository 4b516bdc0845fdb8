"""The comparison of a load with the store, without a cluster."""

from __future__ import annotations

import orjson

from benchmarks.faults.checking import arguments_cid, is_audited
from benchmarks.faults.log import Log


def row_of(text: str) -> bytes:
    return orjson.dumps({"kind": "call", "name": "say", "arguments": arguments_cid(text)})


def test_each_answered_call_needs_its_own_audit_row() -> None:
    """A call whose answer did not arrive has a row too: hubs were killed before the last rows were written."""
    log = Log(audited=[(0, "first"), (0, "last")])
    unanswered = row_of("without an answer")
    assert not is_audited(log, [row_of("first"), unanswered])
    assert is_audited(log, [row_of("first"), unanswered, row_of("last")])
