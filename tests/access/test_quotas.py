"""Quotas: what is counted for whom, and what is forgotten (ACCESS 6; issue 16 item 5)."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access import quotas as quotas_module
from patchbay.access.limits.defaults import default_quotas
from patchbay.access.principals import LOCAL, OPERATOR, Principal
from patchbay.access.quotas import STORED_LIMITS, Quotas
from patchbay.boot.grants import Grants, parse_grants
from patchbay.catalogue.contents.ledger import ROOMS, STORED
from patchbay.errors import ConfigError, OverQuota
from patchbay.settings import Settings
from tests.waiting import BOUND

ANN, BEN = Principal("ann"), Principal("ben")
CAROL = Principal("carol", issuer="https://issuer.example", groups=frozenset({"team"}))


def grants(*rows: dict[str, Any], **groups: list[str]) -> Grants | None:
    return parse_grants(orjson.dumps({"groups": groups, "quotas": list(rows)}), "access")


def quotas(
    *rows: dict[str, Any],
    workers: int = 1,
    defaults: dict[str, int] | None = None,
    groups: dict[str, list[str]] | None = None,
) -> Quotas:
    document = grants(*rows, **(groups or {}))
    return Quotas(lambda: document, defaults or {}, workers)


def begun(counts: Quotas, who: Principal, server: str = "notes", tries: int = 10) -> int:
    """How many of some tries to begin a call succeed. The calls do not end."""
    held = []
    for _ in range(tries):
        try:
            held.append(counts.begin_call(who, server))
        except OverQuota:
            continue
    return len(held)


@pytest.mark.parametrize(
    ("rows", "groups", "who", "calls"),
    [
        ([], {}, ANN, 10),
        ([{"to": ["*"], "calls_in_flight": 3}], {}, ANN, 3),
        ([{"to": ["*"], "calls_in_flight": 3}, {"to": ["ann"], "calls_in_flight": 5}], {}, ANN, 5),
        ([{"to": ["*"], "calls_in_flight": 5}, {"to": ["ann"], "calls_in_flight": 3}], {}, ANN, 3),
        ([{"to": ["*"], "calls_in_flight": 5}, {"to": ["all"], "calls_in_flight": 3}], {"all": ["ann"]}, ANN, 3),
        ([{"to": ["all"], "calls_in_flight": 3}, {"to": ["ann"], "calls_in_flight": 4}], {"all": ["ann"]}, ANN, 4),
        (
            [{"to": ["a"], "calls_in_flight": 3}, {"to": ["b"], "calls_in_flight": 4}],
            *({"a": ["ann"], "b": ["ann"]}, ANN, 4),
        ),
        ([{"to": ["ben"], "calls_in_flight": 3}], {}, ANN, 10),
        ([{"to": ["team"], "calls_in_flight": 3}], {}, CAROL, 3),
        ([{"to": ["team"], "calls_in_flight": 12}], {"team": ["ann"]}, CAROL, 10),
        ([{"to": ["https://issuer.example#carol"], "calls_in_flight": 2}], {}, CAROL, 2),
        ([{"to": ["*"], "calls_in_flight": 1}], {}, OPERATOR, 10),
        ([{"to": ["*"], "calls_in_flight": 4}], {}, LOCAL, 4),
        # On servers.
        ([{"to": ["*"], "on": ["notes"], "calls_in_flight": 3}], {}, ANN, 3),
        ([{"to": ["*"], "on": ["other"], "calls_in_flight": 3}], {}, ANN, 10),
        ([{"to": ["*"], "on": ["n*"], "calls_in_flight": 3}, {"to": ["*"], "calls_in_flight": 2}], {}, ANN, 2),
        ([{"on": ["notes"], "calls_in_flight": 6}], {}, ANN, 6),
    ],
)  # fmt: skip
def test_the_most_exact_row_limits_the_calls_of_a_principal(
    rows: list[dict[str, Any]], groups: dict[str, list[str]], who: Principal, calls: int
) -> None:
    counts = quotas(*rows, groups=groups)
    held = [counts.begin_call(who, "notes") for _ in range(calls)]
    if calls < 10:
        with pytest.raises(OverQuota, match="at the same time; try again in 1 second") as refused:
            counts.begin_call(who, "notes")
        assert refused.value.status == 429 and refused.value.headers == {"Retry-After": "1"}
    for place in held:
        if place is not None:
            place.release()
            place.release()
    assert begun(counts, who, tries=calls) == calls, "the ended calls count no more"


def test_each_principal_has_its_own_quota_and_a_server_one_for_all() -> None:
    counts = quotas({"to": ["*"], "calls_in_flight": 3}, {"on": ["notes"], "calls_in_flight": 4})
    held = [counts.begin_call(ANN, "notes") for _ in range(3)]
    with pytest.raises(OverQuota, match="each caller may have 3"):
        counts.begin_call(ANN, "other")
    held.append(counts.begin_call(BEN, "notes"))
    with pytest.raises(OverQuota, match="all callers of notes together may have 4"):
        counts.begin_call(BEN, "notes")
    assert counts.begin_call(BEN, "other") is not None
    assert len(held) == 4


def test_calls_in_a_minute_are_counted_in_a_moving_window_and_the_error_says_how_long_to_wait() -> None:
    counts = quotas({"to": ["*"], "calls_per_minute": 5}, {"to": ["*"], "on": ["slow"], "calls_per_minute": 2})
    for _ in range(2):
        place = counts.begin_call(ANN, "slow")
        assert place is not None
        place.release()
    with pytest.raises(OverQuota, match=r"each caller on slow may have 2 calls in a minute; try again in \d+ seconds"):
        counts.begin_call(ANN, "slow")
    assert counts.refusal(ANN, "notes") is None
    for _ in range(3):
        counts.begin_call(ANN, "notes")
    with pytest.raises(OverQuota) as refused:
        counts.begin_call(ANN, "notes")
    assert 1 <= refused.value.retry_after <= 60
    told = counts.refusal(ANN, "notes")
    assert told is not None and told.message.startswith("too many calls: each caller may have 5")
    assert counts.begin_call(BEN, "slow") is not None


def test_a_refused_call_holds_no_place() -> None:
    counts = quotas({"to": ["*"], "calls_in_flight": 1, "calls_per_minute": 1})
    first = counts.begin_call(ANN, "notes")
    assert first is not None
    first.release()
    for _ in range(2):
        with pytest.raises(OverQuota, match="in a minute"):
            counts.begin_call(ANN, "notes")


def test_a_call_of_a_tool_by_a_tool_counts_for_its_server_alone() -> None:
    counts = quotas({"to": ["*"], "calls_in_flight": 1}, {"on": ["notes"], "calls_in_flight": 1})
    outer = counts.begin_call(ANN, "other")
    inner = counts.begin_call(ANN, "notes", True)
    assert outer is not None and inner is not None
    with pytest.raises(OverQuota, match="all callers of notes"):
        counts.begin_call(ANN, "notes", True)


def test_each_worker_has_its_share() -> None:
    assert begun(quotas({"to": ["*"], "calls_in_flight": 8}, workers=4), ANN) == 2
    assert begun(quotas({"to": ["*"], "calls_in_flight": 1}, workers=4), ANN) == 1
    assert quotas({"to": ["*"], "bytes_stored": 9}, workers=4).stored_limit("ann", STORED).bytes == 9


def test_a_place_whose_call_never_ran_is_released_with_it() -> None:
    counts = quotas({"to": ["*"], "calls_in_flight": 1})
    place = counts.begin_call(ANN, "notes")
    assert begun(counts, ANN) == 0
    del place
    assert begun(counts, ANN) == 1


def test_the_garbage_collector_releases_a_place_in_a_thread_that_counts_a_call() -> None:
    """A lock in `release` would stop this thread for good."""
    counts = quotas({"to": ["*"], "calls_in_flight": 1})
    cycle: list[Any] = [counts.begin_call(ANN, "notes")]
    cycle.append(cycle)
    del cycle

    def collect() -> None:
        with counts._lock:
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(BOUND)
    assert not thread.is_alive()
    assert begun(counts, ANN) == 1


def test_counters_without_a_call_are_removed_and_the_others_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MAX_CACHED_ACCOUNTS", 8)
    counts = quotas({"to": ["*"], "calls_in_flight": 1})
    held = counts.begin_call(ANN, "notes")
    for number in range(100):
        ended = counts.begin_call(Principal(f"user {number}"), "notes")
        assert ended is not None
        ended.release()
    assert len(counts._in_use) <= 8
    assert held is not None and begun(counts, ANN) == 0


def test_a_sweep_forgets_no_call_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters that count something stay in use; those of callers without a call are removed."""
    monkeypatch.setattr(quotas_module, "SWEEP_CALLS", 5)
    counts = quotas({"to": ["*"], "calls_in_flight": 3, "calls_per_minute": 4})
    held = [counts.begin_call(ANN, "notes") for _ in range(2)]
    for number in range(20):
        ended = counts.begin_call(BEN if number < 4 else Principal(f"user {number}"), f"server {number}")
        assert ended is not None
        ended.release()
    assert len(counts._in_use) <= 7
    assert len(held) == 2 and begun(counts, ANN, "other") == 1, "two calls go on"
    with pytest.raises(OverQuota, match="each caller may have 4 calls in a minute"):
        counts.begin_call(BEN, "notes")


def test_the_limits_of_a_group_of_an_issuer_stay_after_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored names the id of its principal alone; new grants, another share and many calls sweep."""
    monkeypatch.setattr(quotas_module, "SWEEP_CALLS", 5)
    counts = quotas({"to": ["team"], "rooms": 3}, defaults={"rooms": 20})
    counts.remember(CAROL)
    assert counts.stored_limit(CAROL.id, ROOMS).things == 3, "before the first call"
    counts.share(2)
    assert counts.stored_limit(CAROL.id, ROOMS).things == 3
    begun(counts, ANN)
    assert counts.stored_limit(CAROL.id, ROOMS).things == 3
    counts.remember(Principal(CAROL.subject, issuer=CAROL.issuer))
    assert counts.stored_limit(CAROL.id, ROOMS).things == 20, "a later token names no group"


def test_the_remembered_groups_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MAX_CACHED_ACCOUNTS", 8)
    counts = quotas({"to": ["team"], "rooms": 3})
    senders = [Principal(f"user {number}", CAROL.issuer, groups=CAROL.groups) for number in range(20)]
    for sender in senders:
        counts.remember(sender)
    assert len(counts._seen) == 8 and counts.stored_limit(senders[-1].id, ROOMS).things == 3


def test_many_threads_never_pass_a_quota() -> None:
    counts = quotas({"to": ["*"], "calls_in_flight": 7, "calls_per_minute": 1000})
    held: list[Any] = []
    barrier = threading.Barrier(8)

    def flood() -> None:
        barrier.wait(BOUND)
        for _ in range(100):
            try:
                held.append(counts.begin_call(ANN, "notes"))
            except OverQuota:
                continue

    threads = [threading.Thread(target=flood) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert len(held) == 7


def test_only_shared_mode_has_default_quotas(tmp_path: Path) -> None:
    shared = Settings(data=tmp_path, servers=tmp_path, access="shared", threads=256, hosts=64, workers=2)
    found = default_quotas(shared)
    running = {"calls_in_flight": 32, "calls_per_minute": 3000, "streams": 2000, "websockets": 1000}
    running |= {"room_bytes_per_second": 2 * 1024 * 1024}
    assert {name: limit for name, limit in found.items() if name not in STORED_LIMITS} == running
    assert found.keys() == running.keys() | STORED_LIMITS
    assert default_quotas(Settings(data=tmp_path, servers=tmp_path)) == {}
    counts = quotas(defaults={"calls_in_flight": 2})
    assert begun(counts, ANN) == 2
    assert begun(counts, OPERATOR) == 10
    assert begun(quotas({"to": ["ann"], "calls_in_flight": 4}, defaults={"calls_in_flight": 2}), ANN) == 4


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"to": ["*"]},
        {"on": ["notes"]},
        {"calls_in_flight": 3},
        {"to": ["*"], "calls_in_flight": 0},
        {"to": ["*"], "calls_in_flight": 1.5},
        {"to": ["*"], "calls_in_flight": "3"},
        {"to": ["*"], "calls_per_minute": -1},
        {"to": ["*"], "calls_per_second": 1},
        {"to": [], "streams": 1},
        {"to": ["*"], "on": [], "streams": 1},
        {"to": ["*"], "on": ["notes."], "streams": 1},
        {"to": ["*"], "on": ["notes"], "bytes_stored": 1},
        {"to": ["*"], "on": ["notes"]},
        {"on": ["notes"], "bytes_stored": 1},
    ],
)
def test_a_wrong_row_of_quotas_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_grants(orjson.dumps({"quotas": [row]}), "access")
