"""The rates of frames, of one WebSocket and of all of one principal, at given times."""

from __future__ import annotations

import pytest

from patchbay.wire.front.frame_rates import (
    AT_ONCE,
    FRAMES_PER_SECOND,
    PRINCIPAL_FRAMES_PER_SECOND,
    FrameRate,
    FrameRates,
)


def test_a_sender_of_too_many_frames_waits_until_its_rate_allows_more() -> None:
    rate = FrameRate(100)
    assert rate.seconds_until_more(1000.0) == 0.0
    rate.count(125)
    assert rate.seconds_until_more(1000.0) == pytest.approx(1.01)
    assert rate.seconds_until_more(1000.5) == pytest.approx(0.51)
    assert rate.seconds_until_more(1001.02) == 0.0


def test_a_quiet_sender_saves_no_more_than_what_it_may_send_at_once() -> None:
    rate = FrameRate(100)
    assert rate.seconds_until_more(10_000.0) == 0.0
    rate.count(int(100 * AT_ONCE))
    assert rate.seconds_until_more(10_000.0) > 0


def test_the_websockets_of_one_principal_share_a_rate() -> None:
    rates = FrameRates(has_principals=True)
    first, second, other = rates.open("ann"), rates.open("ann"), rates.open("ben")
    assert first[1] is second[1] and first[1] is not other[1] and first[0] is not second[0]
    first[1].count(PRINCIPAL_FRAMES_PER_SECOND)
    rates.close("ann")
    assert rates.open("ann")[1] is second[1]
    rates.close("ann")
    rates.close("ann")
    assert rates.open("ann")[1] is not second[1]


def test_a_hub_of_one_principal_has_a_rate_for_each_websocket_only() -> None:
    [own] = FrameRates(has_principals=False).open("local")
    assert own.seconds_until_more(1.0) == 0.0
    own.count(FRAMES_PER_SECOND)
    assert own.seconds_until_more(1.0) > 0
