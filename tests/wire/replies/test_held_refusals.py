"""Refusals for a quota wait without a thread, longer for a principal that has many of them.

Sources: ACCESS section 6; issue 16 "Must show".
"""

from __future__ import annotations

from collections.abc import Iterable

from patchbay.events import Wait
from patchbay.jsonrpc import Result
from patchbay.wire.endpoints.pages import PageReply
from patchbay.wire.replies.held_refusals import HOLD_SECONDS, MAX_HOLD_SECONDS, REFUSALS_PER_SECOND, HeldRefusals
from patchbay.wire.replies.reply import ListeningBody, Reply, json_reply


def refused(status: int = 200) -> Reply:
    return json_reply(Result(1, {"content": []}, retry_after=7), status)


def answer(held: HeldRefusals, who: str = "ann") -> Iterable[bytes]:
    """The body that a refused principal gets."""
    return held.held(refused(), who).body  # type: ignore[return-value]


def first_wait(body: Iterable[bytes]) -> float:
    """The seconds that a body waits before it says anything."""
    assert isinstance(body, ListeningBody)
    step = next(body.steps)
    assert isinstance(step, Wait)
    return step.seconds


def test_a_refusal_waits_about_a_second_and_says_its_length() -> None:
    whole = refused()
    held = HeldRefusals().held(refused(), "ann")
    assert HOLD_SECONDS[0] - 0.1 <= first_wait(held.body) <= HOLD_SECONDS[1]  # type: ignore[arg-type]
    assert held.head == whole.head and ("Retry-After", "7") in held.head
    assert not held.holds_thread


def test_a_refusal_of_a_page_waits_too_with_its_own_head() -> None:
    head = [("Content-Type", "text/html"), ("Retry-After", "60"), ("Content-Length", "7")]
    held = HeldRefusals().held(PageReply(429, iter([b"refu", b"sed"]), headers=head, line="429 TOO MANY"), "ann")
    assert first_wait(held.body) <= HOLD_SECONDS[1]  # type: ignore[arg-type]
    assert held.head == head and held.status_line == "429 TOO MANY"


def test_other_answers_do_not_wait() -> None:
    for other in (json_reply(Result(1, {"content": []})), refused(503)):
        assert HeldRefusals().held(other, "ann") is other


def test_a_principal_with_many_refusals_waits_longer_and_others_do_not() -> None:
    held = HeldRefusals()
    bodies = [answer(held) for _ in range(10 * REFUSALS_PER_SECOND)]
    waits = [first_wait(body) for body in bodies]
    assert waits[-1] > HOLD_SECONDS[1] and max(waits) <= MAX_HOLD_SECONDS
    assert first_wait(answer(held, "ben")) <= HOLD_SECONDS[1]
    for body in bodies:
        assert isinstance(body, ListeningBody)
        body.close()
    assert first_wait(answer(held)) <= HOLD_SECONDS[1], "refusals that have ended do not count"
