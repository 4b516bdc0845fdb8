"""Partials of a call on their way from a laptop to a room: text is never lost, and of the rest the newest counts."""

from __future__ import annotations

from typing import Any

from patchbay.client.rooms.partials import MAX_PARTIAL_CHARACTERS, Partials

Json = dict[str, Any]


def text(piece: str, progress: float = 1) -> Json:
    return {"progress": progress, "type": "text", "text": piece, "message": piece}


def test_text_that_comes_too_fast_goes_together() -> None:
    """34.12: in its order, with the newest progress."""
    sent: list[Json] = []
    partials = Partials(sent.append)
    partials.add(text("a", 1))
    partials.send_next()
    for number in range(2, 5):
        partials.add(text("b", number))
    partials.send_next()
    assert not partials.is_waiting
    assert [one["partial"] for one in sent] == [text("a", 1), text("bbb", 4)]
    assert [one["seq"] for one in sent] == [0, 1]


def test_long_text_goes_in_several_partials() -> None:
    """34.12: a room takes envelopes up to a size."""
    sent: list[Json] = []
    partials = Partials(sent.append)
    partials.add(text("x" * (2 * MAX_PARTIAL_CHARACTERS + 1)))
    partials.send_all()
    assert [len(one["partial"]["text"]) for one in sent] == [MAX_PARTIAL_CHARACTERS, MAX_PARTIAL_CHARACTERS, 1]


def test_of_other_partials_the_newest_is_sent_after_the_text() -> None:
    """34.12: progress with a total and log lines may be left out."""
    sent: list[Json] = []
    partials = Partials(sent.append)
    partials.add({"progress": 1, "total": 3})
    partials.add(text("a"))
    partials.add({"progress": 2, "total": 3})
    partials.add({"level": "info", "data": "x" * (MAX_PARTIAL_CHARACTERS + 1)})
    partials.send_all()
    assert [one["partial"] for one in sent] == [text("a"), {"progress": 2, "total": 3}]
