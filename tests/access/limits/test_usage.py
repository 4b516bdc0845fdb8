"""The numbers of limits: what each principal has is shown with its limit, and showing it counts nothing."""

from __future__ import annotations

import pytest

from patchbay.access.limits.usage import LABELS, REPEATS, Usage, Use
from patchbay.access.principals import OPERATOR, Principal
from patchbay.access.quotas import LEDGER_LIMITS, STORED_LIMITS, WORDS, Quotas
from patchbay.catalogue.contents.ledger import ACCOUNTS, CALL_IDS, ROOMS, SESSION_CHANGES, Ledger
from patchbay.errors import OverQuota
from patchbay.stores.memory import MemoryStore

ANN, BEN = Principal("ann"), Principal("on server ben")
LIMITS = {"calls_in_flight": 4, "calls_per_minute": 100, "streams": 2, "rooms": 2, "session_changes": 10}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def parts(store: MemoryStore, workers: int = 1) -> tuple[Quotas, Ledger, Usage]:
    quotas = Quotas(lambda: None, LIMITS, workers)
    ledger = Ledger(store.journal, quotas.stored_limit)
    return quotas, ledger, Usage(quotas, ledger)


def add(ledger: Ledger, principal: str, account: str, things: int = 1) -> None:
    ledger.add(principal, account, [], ledger.row(principal, account, "", 10, None, things=things))


def test_each_limit_has_a_label_and_each_account_a_limit() -> None:
    assert LABELS.keys() == STORED_LIMITS | WORDS.keys() | {REPEATS}
    assert LEDGER_LIMITS.keys() == set(ACCOUNTS)


def test_the_nearest_to_its_limit_comes_first(store: MemoryStore) -> None:
    quotas, ledger, usage = parts(store)
    places = [quotas.begin_call(ANN, "notes") for _ in range(2)] + [quotas.open_stream(ANN)]
    add(ledger, "ann", ROOMS, 2)
    add(ledger, "ann", CALL_IDS)
    found = usage.of("ann", [usage.running()["ann"]])
    assert found[:4] == [
        Use("rooms", 2, 2),
        Use("calls_in_flight", 2, 4),
        Use("streams", 1, 2),
        Use("calls_per_minute", 2, 100),
    ]
    assert Use("call_ids", 1, None) in found  # it has no limit here
    assert usage.principals() == {"ann"}
    for place in places:
        assert place is not None
        place.release()
    assert Use("calls_in_flight", 0, 4) in usage.of("ann", [usage.running()["ann"]])


def test_processes_add_up_to_the_whole_limit(store: MemoryStore) -> None:
    one, other = parts(store, 2), parts(store, 2)
    held = [quotas.begin_call(ANN, "notes") for quotas in (one[0], other[0])]
    add(one[1], "ann", ROOMS)
    found = other[2].of("ann", [one[2].running()["ann"], other[2].running()["ann"]])
    assert Use("calls_in_flight", 2, 4) in found and Use("rooms", 1, 2) in found
    assert len(held) == 2


def test_counts_on_one_server_are_not_those_of_the_principal(store: MemoryStore) -> None:
    quotas, _, usage = parts(store)
    place = quotas.begin_call(ANN, "notes")
    assert usage.running() == {"ann": {"calls_in_flight": 1, "calls_per_minute": 1}}
    assert place is not None


def test_the_operator_has_no_limits_and_is_not_listed(store: MemoryStore) -> None:
    quotas, ledger, usage = parts(store)
    quotas.begin_call(OPERATOR, "notes")
    add(ledger, "operator", ROOMS, 5)
    assert usage.principals() == set()
    assert usage.of("operator", []) == [Use("rooms", 5, None)]


def test_totals_name_no_principal_and_read_no_store(store: MemoryStore) -> None:
    quotas, ledger, usage = parts(store)
    place = quotas.begin_call(ANN, "notes")
    add(ledger, "ann", ROOMS, 2)
    add(ledger, "ben", SESSION_CHANGES, 5)
    store.close()
    found = {total.name: (total.largest, total.near) for total in usage.totals()}
    assert found.keys() == LABELS.keys()
    assert (found["rooms"], found["session_changes"], found["streams"]) == ((1.0, 1), (0.5, 0), (0.0, 0))
    assert found["calls_in_flight"] == (0.25, 0)
    assert place is not None


def test_refusals_are_counted_by_limit(store: MemoryStore) -> None:
    quotas, ledger, usage = parts(store)
    held = [quotas.open_stream(ANN) for _ in range(2)]
    for _ in range(3):
        with pytest.raises(OverQuota):
            quotas.open_stream(ANN)
    add(ledger, "ann", ROOMS, 2)
    with pytest.raises(OverQuota):
        add(ledger, "ann", ROOMS)
    found = usage.refusals()
    assert (found["streams"], found["rooms"], found["calls_in_flight"]) == (3, 1, 0)
    assert len(held) == 2
