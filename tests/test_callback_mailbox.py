"""The callback of a reader that waits for a mailbox without a thread."""

from __future__ import annotations

from patchbay.callback_mailbox import CallbackMailbox


class Box(CallbackMailbox):
    """A mailbox that has something when the test says so."""

    has_something = False

    def _is_ready(self) -> bool:
        return self.has_something

    def fill(self) -> None:
        with self._lock:
            self.has_something = True
            callback = self._take_callback()
        if callback is not None:
            callback()


def test_a_callback_is_called_once() -> None:
    box, called = Box(), list[str]()
    assert box.call_when_ready(lambda: called.append("once"))
    box.fill()
    box.fill()
    assert called == ["once"] and not box.cancel_call()


def test_a_mailbox_with_something_calls_nothing() -> None:
    box, called = Box(), list[str]()
    box.fill()
    assert not box.call_when_ready(lambda: called.append("never"))
    box.fill()
    assert called == []


def test_a_cancelled_callback_is_not_called() -> None:
    box, called = Box(), list[str]()
    assert box.call_when_ready(lambda: called.append("never"))
    assert box.cancel_call() and not box.cancel_call()
    box.fill()
    assert called == []
