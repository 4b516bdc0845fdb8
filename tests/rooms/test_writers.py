"""What callers write into the log of a room is counted once, whichever process writes it or is interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.catalogue.contents.ledger import ROOM_BYTES, SETTLE_BYTES, Ledger, Limit, owner_of
from patchbay.catalogue.contents.tallies import MAX_PENDING, SHARE_OF_LIMIT
from patchbay.errors import OverQuota
from patchbay.rooms.record.envelope import HUB
from patchbay.rooms.record.writers import LEAST_BYTES, Writers, give_back, rows_of
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ROOM_WRITERS

Json = dict[str, Any]

STATE: Json = {"calls": {"c1": {"caller": "s1"}}, "servers": {"fs": {"owner": "s2"}}}
MOST = 16 * SHARE_OF_LIMIT * 1024


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def envelope(type: str = "chat", sender: str = "s1", **payload: Any) -> Json:
    return {"from": sender, "type": type, "payload": payload}


def known(ledger: Ledger) -> Writers:
    writers = Writers(ledger, "room")
    writers.note("s1", "ann")
    writers.note("s2", "ben")
    return writers


def limited(store: MemoryStore, most: int | None = MOST) -> Ledger:
    return Ledger(store.journal, lambda principal, account: Limit(most))


def test_an_entry_counts_for_its_sender_and_one_of_the_hub_for_its_cause(store: MemoryStore) -> None:
    writers = known(limited(store))
    writers.note("c2", "carol")
    assert writers.find(envelope(), STATE) == "ann"
    assert writers.find(envelope("presence.join", HUB, session="s2"), STATE) == "ben"
    assert writers.find(envelope("tool.result", HUB, callId="c1"), STATE) == "ann"
    assert writers.find(envelope("tool.call", HUB, callId="c2", serverId="fs"), STATE) == "carol"
    assert writers.find(envelope("mcp.mount.failed", HUB, serverId="fs"), STATE) == "ben"
    assert writers.find(envelope("room.rules", HUB), STATE) is None
    writers.forget("s1")
    assert writers.find(envelope(), STATE) is None


def test_a_row_stands_for_many_entries(store: MemoryStore) -> None:
    writers, size = known(limited(store, None)), SETTLE_BYTES // 4
    rows = [writers.count("ann", envelope(), size) for _ in range(8)]
    assert [len(one) for one in rows] == [0, 0, 0, 2] * 2


def test_the_end_of_a_session_writes_what_is_worth_a_row(store: MemoryStore) -> None:
    writers = known(limited(store, None))
    assert writers.count("ann", envelope(), LEAST_BYTES // 2) == []
    assert len(writers.count("ann", envelope("presence.part", HUB), LEAST_BYTES // 2)) == 2
    assert writers.count("ann", envelope("presence.part", HUB), LEAST_BYTES // 2) == []


def test_the_principals_that_wait_for_a_row_have_a_limit(store: MemoryStore) -> None:
    writers = known(limited(store, None))
    for number in range(2 * MAX_PENDING):
        writers.count(f"caller {number}", envelope(), 1)
    assert len(writers.mark()) == MAX_PENDING


def test_entries_that_are_not_written_do_not_count(store: MemoryStore) -> None:
    writers = known(limited(store))
    mark = writers.mark()
    writers.count("ann", envelope(), 100)
    writers.roll_back(mark)
    assert writers.mark() == {}


def test_beyond_the_limit_everything_is_refused_but_what_ends_a_session_or_a_call(store: MemoryStore) -> None:
    ledger = limited(store)
    writers = known(ledger)
    store.journal.append_all(rows_of(ledger, "ann", "another room", MOST), {})
    for kind, sender in (("chat", "s1"), ("tool.result", "s1"), ("presence.join", HUB), ("tool.call", HUB)):
        with pytest.raises(OverQuota, match="bytes in the logs of rooms"):
            writers.check("ann", envelope(kind, sender), MOST // SHARE_OF_LIMIT)
    for kind, sender in (("presence.part", HUB), ("tool.result", HUB), ("tool.cancel", "s1")):
        writers.check("ann", envelope(kind, sender), MOST // SHARE_OF_LIMIT)
    writers.check("ben", envelope(sender="s2"), MOST // SHARE_OF_LIMIT)


def test_the_bytes_of_a_deleted_log_are_given_back_once(store: MemoryStore) -> None:
    ledger = limited(store)
    for principal, room in (("ann", "room"), ("ben", "room"), ("ann", "room"), ("ann", "other")):
        store.journal.append_all(rows_of(ledger, principal, room, 1000), {})
    # An interrupted process gave back those of ann, and did not delete the rows.
    seq = store.journal.last(ROOM_WRITERS + "room")
    back = rows_of(ledger, "ann", "room", -2000)[1]
    ledger.take_back(owner_of("ann"), ROOM_BYTES, 2000, 0, [back], {ROOM_WRITERS + "room": seq})
    for _ in range(2):
        give_back(store.journal, ledger, "room")
        assert (ledger.used("ann", ROOM_BYTES).bytes, ledger.used("ben", ROOM_BYTES).bytes) == (1000, 0)
    assert store.journal.last(ROOM_WRITERS + "room") == 0
