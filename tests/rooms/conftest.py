"""One room in memory for the tests that need no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.rooms.people import rooms_of


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    """The rooms of a hub in memory."""
    with rooms_of() as rooms:
        yield rooms


@pytest.fixture
def room(rooms: Rooms) -> Room:
    """A room that alice has created."""
    return rooms.create("demo", "alice")
