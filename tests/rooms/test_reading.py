"""What a session reads: in batches, and on from memory when what it did not read in time was live only."""

from __future__ import annotations

from patchbay.rooms.feed import MAX_DELIVERIES
from patchbay.rooms.record.envelope import hub_envelope
from patchbay.rooms.room import Room
from tests.rooms.people import Person


def test_a_batch_ends_with_the_delivery_that_fills_it(room: Room) -> None:
    """ENS-18: a reader takes at least one delivery, and no more than it asks for."""
    speaker, reader = Person(room, "alice"), Person(room, "bob")
    reader.reads()
    for number in range(5):
        speaker.says("chat.msg", {"text": str(number) + "x" * 1000})
    sizes = []
    while taken := reader.session.read(100, 2000):
        sizes.append(len(taken))
    assert sizes == [2, 2, 1]
    speaker.says("chat.msg", {"text": "y" * 5000})
    assert len(reader.session.read(100, 2000)) == 1


def test_the_log_is_read_in_batches_of_bytes_too(room: Room) -> None:
    """ENS-16: a reader that comes later gets the past in the same order."""
    speaker = Person(room, "alice")
    for number in range(7):
        speaker.says("chat.msg", {"text": str(number) + "x" * 1000})
    reader = Person(room, "alice", after=speaker.room.seq - 7)
    texts: list[str] = []
    while taken := reader.session.read(100, 2500):
        assert len(taken) <= 3
        texts += [one.envelope["payload"]["text"][0] for one in taken if one.envelope["type"] == "chat.msg"]
    assert texts == [str(number) for number in range(7)]


def test_a_reader_that_missed_live_envelopes_reads_on_with_those_in_memory(room: Room) -> None:
    """ENS-16: what is live only is missed by a slow reader; what comes after it is there at the next `take`."""
    reader = Person(room, "bob")
    reader.reads()
    for number in range(MAX_DELIVERIES + 10):
        beat = hub_envelope("demo", "presence.heartbeat", {"number": number}, 0)
        room.core.feed.publish(beat)
    [first] = reader.session.read(1)
    assert first.envelope["payload"]["number"] == 10
