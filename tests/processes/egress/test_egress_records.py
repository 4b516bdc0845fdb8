"""What a program asked its proxy for: counted by host and port, in memory of bounded size."""

from __future__ import annotations

import pytest

from patchbay.processes.egress.egress_records import (
    FAILED,
    MAX_HOSTS,
    NOT_LISTED,
    PRIVATE,
    EgressRecords,
    HostRecord,
    merge_records,
)


def test_requests_are_counted_by_host_and_port() -> None:
    kept: list[HostRecord] = []
    records = EgressRecords(keep=kept.extend)
    for reason in ("", "", NOT_LISTED, f"{FAILED}refused"):
        records.note("a.example", 443, reason)
    records.note("a.example", 80, NOT_LISTED)
    records.flush()
    assert [(one.host, one.port, one.reached, one.refused, one.reason) for one in kept] == [
        ("a.example", 443, 2, 1, f"{FAILED}refused"),
        ("a.example", 80, 0, 1, NOT_LISTED),
    ]
    records.flush()
    assert len(kept) == 2


def test_a_refusal_is_past_when_the_host_was_reached_since() -> None:
    records = EgressRecords()
    records.note("a.example", 443, NOT_LISTED)
    records.note("b.example", 443, NOT_LISTED)
    records.note("b.example", 443)
    assert [one.host for one in records.refused_since(0)] == ["a.example"]
    assert records.refused_since(records.refused_since(0)[0].at + 1) == []


def test_the_missing_entry_is_the_host_or_its_private_address() -> None:
    assert HostRecord("a.example", 443, reason=NOT_LISTED).missing == ("a.example", 443)
    assert HostRecord("a.example", 443, reason=f"{PRIVATE} 10.0.0.5").missing == ("10.0.0.5", 443)
    assert HostRecord("a.example", 443, reason=f"{FAILED}gone").missing is None
    assert HostRecord("a.example", 443, 3).missing is None


def test_a_program_that_asks_for_many_hosts_fills_no_memory() -> None:
    kept: list[HostRecord] = []
    records = EgressRecords(keep=kept.extend)
    for number in range(5 * MAX_HOSTS):
        records.note(f"h{number}." + "\x1b[31m" + "x" * 1000, 443, NOT_LISTED)
    records.flush()
    assert len(kept) == MAX_HOSTS and len(records.refused_since(0)) <= 2 * MAX_HOSTS
    assert all(len(one.host) <= 253 and one.host.isprintable() for one in kept)


def test_records_that_cannot_be_stored_are_stored_later() -> None:
    kept: list[HostRecord] = []
    is_full = [True]

    def keep(records: list[HostRecord]) -> None:
        if is_full[0]:
            raise OSError("the disk is full")
        kept.extend(records)

    mount = EgressRecords(keep=keep)
    program = EgressRecords(mount)
    program.note("a.example", 443)
    with pytest.raises(OSError, match="full"):
        program.flush()
    program.note("a.example", 443)
    is_full[0] = False
    program.flush()
    assert [(one.host, one.reached) for one in kept] == [("a.example", 2)]


def test_records_of_two_processes_are_added() -> None:
    found = merge_records(
        [HostRecord("a", 1, 1, 0, 5.0), HostRecord("b", 1, 0, 1, 7.0, NOT_LISTED), HostRecord("a", 1, 2, 1, 4.0)]
    )
    assert found == [HostRecord("a", 1, 3, 1, 5.0), HostRecord("b", 1, 0, 1, 7.0, NOT_LISTED)]
