"""Requests that are cancelled from another process of the same hub."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from patchbay.activation import CancelFlag
from patchbay.protocol import running_requests
from patchbay.protocol.running_requests import Cancellations, RunningRequests
from patchbay.stores.bus import LocalSubscription
from patchbay.stores.memory import MemoryStore
from tests.waiting import until


class Failing(MemoryStore):
    """A store that says that it does not work."""

    def check(self) -> str | None:
        return "the disk is full"


def test_a_cancellation_arrives_after_any_failure_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUB-C11, X-19: with several workers, a call is cancelled in the one that runs it."""
    looks: list[int] = []
    get = LocalSubscription.get

    def counted(self: LocalSubscription, timeout: float) -> Any:
        looks.append(1)
        return get(self, timeout)

    monkeypatch.setattr(running_requests, "LISTEN_POLL_SECONDS", 0.01)
    monkeypatch.setattr(LocalSubscription, "get", counted)
    store, running, flag, before = Failing(), RunningRequests(), CancelFlag(), set(threading.enumerate())
    here, there = Cancellations(running, store, alone=False), Cancellations(RunningRequests(), store, alone=False)
    here.listen()
    (listening,) = (one for one in threading.enumerate() if one not in before and one.name == "cancellations")
    running.add("me", 1, flag)
    until(lambda: len(looks) > 3, "it has looked, and looks again")
    there.cancel("me", 1, "not wanted")
    until(lambda: bool(flag), "it is cancelled")
    store.close()
    until(lambda: not listening.is_alive(), "the thread for cancellations ends with the store")
