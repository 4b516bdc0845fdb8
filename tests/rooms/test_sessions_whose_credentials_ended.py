"""A participant whose credentials ended says nothing more: the room asks at each envelope."""

from __future__ import annotations

import pytest

from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.room import Room
from patchbay.rooms.session import UnlimitedRights
from tests.rooms.people import envelope, hello


class EndingRights(UnlimitedRights):
    """Every right, until the credentials end."""

    def __init__(self) -> None:
        self.has_ended = False

    def is_current(self) -> bool:
        return not self.has_ended


def test_an_envelope_is_refused_and_the_session_ends(room: Room) -> None:
    rights = EndingRights()
    session = room.join("eve", hello("can.speak"), rights=rights)
    assert session.receive(envelope("chat.msg", {"text": "before"})).seq is not None
    rights.has_ended = True
    with pytest.raises(RoomRefused):  # the thread that maintains the rooms may have ended the session a moment before
        session.receive(envelope("chat.msg", {"text": "after"}))
    assert session.is_closed and session.id not in room.state_now["sessions"]
    said = [line for line in room.lines(0, None) if b"chat.msg" in line]
    assert len(said) == 1 and b"before" in said[0]
