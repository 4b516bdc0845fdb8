"""The bytes that one principal sends to rooms have a rate, in all its sessions together."""

from __future__ import annotations

import pytest

from patchbay.access.principals import OPERATOR, Principal
from patchbay.access.quotas import ROOM_BYTES_PER_SECOND, Quotas
from patchbay.boot.grants import parse_grants
from patchbay.errors import OverQuota
from patchbay.rooms.bounds import BURST
from patchbay.wire.rooms import byte_rates
from patchbay.wire.rooms.byte_rates import ByteRates

ANN, BEN = Principal("ann"), Principal("ben")
LIMIT, BURST_BYTES = 1000, int(1000 * BURST)


def rates(least: int = 1, processes: int = 1) -> ByteRates:
    return ByteRates(Quotas(lambda: None, {ROOM_BYTES_PER_SECOND: LIMIT}, processes), least)


def test_a_principal_sends_a_burst_and_then_no_more() -> None:
    found = rates()
    found.count(ANN, BURST_BYTES)
    with pytest.raises(OverQuota, match="each caller may send 1000 bytes to rooms in a second; send less"):
        found.count(ANN, LIMIT)
    found.count(BEN, BURST_BYTES)


def test_a_burst_has_room_for_the_largest_envelope() -> None:
    found = rates(least=10 * BURST_BYTES)
    found.count(ANN, 10 * BURST_BYTES)
    with pytest.raises(OverQuota):
        found.count(ANN, BURST_BYTES)


def test_each_process_has_its_share() -> None:
    found = rates(processes=4)
    found.count(ANN, BURST_BYTES // 4)
    with pytest.raises(OverQuota, match="may send 1000 bytes"):
        found.count(ANN, BURST_BYTES // 4)


def test_the_operator_and_a_hub_without_the_limit_have_none() -> None:
    rates().count(OPERATOR, 1000 * BURST_BYTES)
    ByteRates(Quotas(lambda: None, {}), 1).count(ANN, 1000 * BURST_BYTES)


def test_the_limit_of_a_group_of_an_issuer_counts_before_any_call_and_with_two_tokens() -> None:
    """A token of before and one of now assert other groups: who takes turns with them gets no burst at each turn."""
    row = b'{"quotas": [{"to": ["team"], "room_bytes_per_second": 2000}]}'
    document = parse_grants(row, "access")
    found = ByteRates(Quotas(lambda: document, {ROOM_BYTES_PER_SECOND: LIMIT}), 1)
    before = Principal("carol", "https://issuer.example")
    now = Principal("carol", "https://issuer.example", groups=frozenset({"team"}))
    for sender, burst in ((now, 2 * BURST_BYTES), (before, BURST_BYTES)):
        found.count(sender, burst)
    for sender, limit in ((now, 2000), (before, LIMIT)):
        with pytest.raises(OverQuota, match=f"may send {limit} bytes"):
            found.count(sender, limit)


def test_the_remembered_rates_have_a_limit() -> None:
    found = rates()
    for number in range(byte_rates.MAX_REMEMBERED + 10):
        found.count(Principal(f"caller {number}"), 1)
    assert len(found._rates) == byte_rates.MAX_REMEMBERED
