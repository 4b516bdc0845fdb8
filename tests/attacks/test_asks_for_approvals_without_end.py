"""A member asks for approvals and declines them in a loop, to fill the memory and the disk, or to use one twice.

Sources: issue 16; ACCESS section 5.
"""

from __future__ import annotations

import pytest

from patchbay.access.approvals import (
    APPROVAL_SECONDS,
    KEPT_SECONDS,
    MAX_ASKED,
    MAX_PAST,
    UNDECIDED_SECONDS,
    Approvals,
    CallDigest,
    canonical_arguments,
)
from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.stores.memory import MemoryStore
from patchbay.topics import APPROVALS

LONG = "a" * 15_000


def request_approval(approvals: Approvals, number: int, principal: str = "ann") -> str:
    given = canonical_arguments({"number": number, "text": LONG})
    call = CallDigest(principal, "safe", "v", "open", "d", cid_of(given))
    return approvals.request(call, given).id


def test_declined_calls_count_until_they_are_old() -> None:
    now = [1000.0]
    approvals = Approvals(MemoryStore(), lambda: now[0])
    for number in range(MAX_ASKED):
        approvals.decide(request_approval(approvals, number), False, "ann")
    with pytest.raises(ToolFailed, match=f"{MAX_ASKED} of your calls asked"):
        request_approval(approvals, MAX_ASKED)
    assert request_approval(approvals, 0, "ben")
    now[0] += APPROVAL_SECONDS
    assert request_approval(approvals, MAX_ASKED)


def test_decided_calls_keep_no_arguments_and_are_forgotten_beyond_a_limit() -> None:
    now = [1000.0]
    store = MemoryStore()
    approvals = Approvals(store, lambda: now[0])
    undecided = request_approval(approvals, -1)
    for number in range(MAX_PAST + 100):
        now[0] += APPROVAL_SECONDS / MAX_ASKED
        approvals.decide(request_approval(approvals, number), False, "ann")
    shown = approvals.all()
    assert len(shown) == MAX_PAST and all(one.arguments is None for one in shown)
    assert approvals.find(undecided) is None, f"a call without a decision stays for {UNDECIDED_SECONDS} seconds"
    decisions = [entry.data for entry in store.journal.read(APPROVALS) if b'"refused"' in entry.data]
    assert decisions and all(LONG.encode() not in data for data in decisions)


def test_a_new_process_reads_all_entries_before_it_decides() -> None:
    """The entry that an approval is used stands after more entries than one reading returns."""
    now = [1000.0]
    store = MemoryStore()
    approvals = Approvals(store, lambda: now[0])
    given = canonical_arguments({})
    call = CallDigest("ben", "safe", "v", "open", "d", cid_of(given))
    id = approvals.request(call, given).id
    approvals.decide(id, True, "operator")
    approvals.decide(request_approval(approvals, 0), False, "ann")
    entry = store.journal.tail(APPROVALS, 1)[0].data
    store.journal.append_all([(APPROVALS, entry, KEPT_SECONDS)] * 100_000, {})
    approvals.use(id, call)
    with pytest.raises(ToolFailed, match="used already"):
        Approvals(store, lambda: now[0]).use(id, call)
