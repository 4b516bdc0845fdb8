"""Sessions at hand and cancellations by id, without a transport."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.activation import CancelFlag
from patchbay.errors import UnknownSession
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.running_requests import RunningRequests
from patchbay.store import Journal
from patchbay.stores.memory import MemoryStore
from tests.waiting import until

KEY = b"k" * 32


@pytest.fixture
def journal() -> Journal:
    return MemoryStore().journal


def is_over(sessions: Sessions, id: str) -> bool:
    """Whether a session is refused."""
    try:
        sessions.find(id, "town", "ann")
    except UnknownSession:
        return True
    return False


@pytest.mark.parametrize("alone", [True, False])
def test_a_session_that_is_held_in_memory_expires(journal: Journal, alone: bool) -> None:
    """VWR-12: its time counts for the process that opened it as for every other."""
    sessions = Sessions(KEY, journal, hours=0.2 / 3600, alone=alone)
    session = sessions.open("town", REVISIONS["2025-11-25"], {}, "ann")
    until(lambda: is_over(sessions, session.id), "the session is over")
    lasting = Sessions(KEY, journal, alone=alone)
    assert not is_over(lasting, lasting.open("town", REVISIONS["2025-11-25"], {}, "ann").id)


@pytest.mark.parametrize(("wanted", "hit"), [(1, 0), ("1", 1), (True, None), (1.0, None), (None, None), ([1], None)])
def test_a_cancellation_hits_the_request_whose_id_has_the_same_type(wanted: Any, hit: int | None) -> None:
    """SUB-C11: 1 and "1" are two requests."""
    running = RunningRequests()
    flags = [CancelFlag(), CancelFlag()]
    ids: tuple[int | str, ...] = (1, "1")
    for id, flag in zip(ids, flags, strict=True):
        running.add("session", id, flag)
    assert running.cancel("session", wanted, "no longer needed") is (hit is not None)
    assert [bool(flag) for flag in flags] == [place == hit for place in range(2)]
