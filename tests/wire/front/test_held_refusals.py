"""Refusals for a quota wait without a thread, longer for a principal that has many of them.

Sources: ACCESS section 6; issue 16 "Must show".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchbay.access.principals import PRINCIPAL, Principal
from patchbay.events import Wait
from patchbay.wire.front.held_refusals import HOLD_SECONDS, MAX_HOLD_SECONDS, REFUSALS_PER_SECOND, HeldRefusals
from patchbay.wire.replies.reply import ListeningBody
from patchbay.wire.requests.rsgi import WAITING

REFUSED = [("Retry-After", "7")]


def answer(held: HeldRefusals, who: str = "ann", on_loop: bool = True) -> Iterable[bytes]:
    """The body that the middleware gives for one request of a principal."""
    environ: dict[str, Any] = {PRINCIPAL: Principal(who)}
    return held(environ | ({WAITING: object()} if on_loop else {}), lambda *_: None)


def middleware(status: str = "429 Too Many Requests", headers: list[tuple[str, str]] = REFUSED) -> HeldRefusals:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response(status, headers)
        return (b"refused",)

    return HeldRefusals(app)


def first_wait(body: Iterable[bytes]) -> float:
    """The seconds that a body waits before it says anything."""
    assert isinstance(body, ListeningBody)
    step = next(body.steps)
    assert isinstance(step, Wait)
    return step.seconds


def test_a_refusal_waits_about_a_second_on_the_event_loop() -> None:
    held = middleware()
    assert HOLD_SECONDS[0] - 0.1 <= first_wait(answer(held)) <= HOLD_SECONDS[1]
    assert list(answer(held, on_loop=False)) == [b"refused"]


def test_other_answers_do_not_wait() -> None:
    assert answer(middleware("200 OK", [])) == (b"refused",)
    assert answer(middleware("503 Service Unavailable")) == (b"refused",)


def test_a_principal_with_many_refusals_waits_longer_and_others_do_not() -> None:
    held = middleware()
    bodies = [answer(held) for _ in range(10 * REFUSALS_PER_SECOND)]
    waits = [first_wait(body) for body in bodies]
    assert waits[-1] > HOLD_SECONDS[1] and max(waits) <= MAX_HOLD_SECONDS
    assert first_wait(answer(held, "ben")) <= HOLD_SECONDS[1]
    for body in bodies:
        assert isinstance(body, ListeningBody)
        body.close()
    assert first_wait(answer(held)) <= HOLD_SECONDS[1], "refusals that have ended do not count"
