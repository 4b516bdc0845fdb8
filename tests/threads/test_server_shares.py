"""The threads of a worker are shared among servers: a slow one leaves some for all others (38.4)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.access.principals import LOCAL
from patchbay.access.quotas import Quotas
from patchbay.activation import CallPlace
from patchbay.errors import OverQuota
from patchbay.events import Mailbox
from patchbay.threads import server_shares
from patchbay.threads.server_shares import ServerShares
from tests.waiting import BOUND

THREADS = 64
PLACES = THREADS * 3 // 4


def shares(threads: int = THREADS) -> ServerShares:
    return ServerShares(threads, lambda *_: None)


def fill(shared: ServerShares, server: str) -> list[CallPlace | None]:
    """Begin calls of a server until one is refused; they do not end."""
    held: list[CallPlace | None] = []
    try:
        while len(held) <= THREADS:
            held.append(shared.begin_call(LOCAL, server))
    except OverQuota:
        return held
    raise AssertionError(f"{server} got more calls than there are threads")


def test_one_slow_server_gets_two_thirds_and_leaves_the_rest_to_the_others() -> None:
    """38.4."""
    shared = shares()
    slow = fill(shared, "slow")
    assert len(slow) == PLACES * 2 // 3
    others = [shared.begin_call(LOCAL, f"quick_{number}") for number in range(8)]
    assert len(others) == 8


def test_many_slow_servers_together_leave_places_for_one_more() -> None:
    """38.4."""
    shared = shares()
    held = [fill(shared, f"slow_{number}") for number in range(6)]
    assert all(held), "each server has at least one place"
    assert sum(map(len, held)) < THREADS - len(held)
    assert shared.begin_call(LOCAL, "quick") is not None


def test_a_refusal_names_the_server_and_when_to_come_back() -> None:
    """38.4."""
    shared = shares(4)
    held = fill(shared, "slow")
    with pytest.raises(OverQuota, match=rf"slow is busy: {len(held)} of its calls .*try again in 1 second$") as refused:
        shared.begin_call(LOCAL, "slow")
    assert refused.value.headers == {"Retry-After": "1"}


def test_an_ended_call_leaves_its_place_to_one_that_waits() -> None:
    """38.4: also when it is released by another thread, or more than once."""
    shared = shares(4)
    held = fill(shared, "slow")
    first = held[0]
    assert first is not None
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(shared.begin_call(LOCAL, "slow")))
    first.release()
    first.release()
    waiting.start()
    waiting.join(BOUND)
    assert len(got) == 1
    with pytest.raises(OverQuota):
        shared.begin_call(LOCAL, "slow")


def test_a_call_that_was_never_run_leaves_its_place() -> None:
    """38.4: its events have no end, but its place is not lost."""
    shared = shares(1)
    for _ in range(3):
        place = shared.begin_call(LOCAL, "notes")
        assert place is not None
        del place
        gc.collect()


def test_a_quick_server_may_have_more_calls_than_a_slow_one_but_never_all() -> None:
    """38.4: its calls end at once, so they leave their threads."""
    shared = shares()
    ended = shared.begin_call(LOCAL, "quick")
    assert ended is not None
    ended.release()
    quick = fill(shared, "quick")
    assert PLACES * 2 // 3 < len(quick) < PLACES


def test_a_nested_call_needs_no_place() -> None:
    """38.4: it runs on the thread of its caller."""
    shared = shares(1)
    held = fill(shared, "notes")
    assert len(held) == 1
    assert shared.begin_call(LOCAL, "notes", True) is None


def test_a_call_over_its_quota_takes_no_place() -> None:
    """38.4: the quotas of principals stay in force, with the words of their own."""
    quotas = Quotas(lambda: None, {"calls_in_flight": 1})
    shared = ServerShares(1, quotas.begin_call)
    first = shared.begin_call(LOCAL, "notes")
    assert first is not None
    with pytest.raises(OverQuota, match="each caller may have 1 calls at the same time"):
        shared.begin_call(LOCAL, "other")
    first.release()
    assert shared.begin_call(LOCAL, "other") is not None


class SetMailbox:
    """A mailbox that is ready from `set` on."""

    closed = False

    def __init__(self) -> None:
        self._is_ready = False
        self._callback: Callable[[], None] | None = None

    def set(self) -> None:
        self._is_ready, callback = True, self._callback
        if callback is not None:
            callback()

    def wait(self, timeout: float) -> None:
        raise AssertionError("it is waited for without a thread")

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        if not self._is_ready:
            self._callback = callback
        return not self._is_ready

    def cancel_call(self) -> bool:
        found, self._callback = self._callback, None
        return found is not None


def rest(place: CallPlace | None, mailbox: SetMailbox) -> Mailbox:
    """Let the call with this place rest; return the mailbox that its reader sees."""
    assert place is not None
    seen = place.while_waiting(mailbox)
    assert seen.call_when_ready(lambda: None)
    return seen


def test_a_call_that_rests_leaves_its_place_until_it_is_called_back() -> None:
    """38.4: what waits for an upstream holds no thread."""
    shared = shares()
    held = fill(shared, "slow")
    mailbox = SetMailbox()
    rest(held[0], mailbox)
    held.append(shared.begin_call(LOCAL, "slow"))
    mailbox.set()
    with pytest.raises(OverQuota):
        shared.begin_call(LOCAL, "slow")


def test_a_call_that_stops_waiting_takes_its_place_again() -> None:
    """38.4."""
    shared = shares()
    held = fill(shared, "slow")
    seen = rest(held[0], SetMailbox())
    assert seen.cancel_call() and not seen.cancel_call()
    with pytest.raises(OverQuota):
        shared.begin_call(LOCAL, "slow")
    ready = SetMailbox()
    ready.set()
    assert held[0] is not None and not held[0].while_waiting(ready).call_when_ready(lambda: None)
    with pytest.raises(OverQuota):
        shared.begin_call(LOCAL, "slow")


def test_resting_calls_have_places_of_their_own_that_one_server_cannot_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """38.4: limits are for each server, and a full one says which and when to come back."""
    monkeypatch.setattr(server_shares, "MAX_RESTING", 12)
    shared = shares()
    resting = []
    with pytest.raises(OverQuota, match=r"slow is busy: 0 of its calls run .* 8 more wait for an answer.*try again in"):
        while True:
            place = shared.begin_call(LOCAL, "slow")
            rest(place, SetMailbox())
            resting.append(place)
    assert len(resting) == 8
    assert shared.begin_call(LOCAL, "other") is not None
    first = resting.pop()
    assert first is not None
    first.release()
    assert shared.begin_call(LOCAL, "slow") is not None
