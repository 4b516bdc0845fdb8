"""Large results: permission to read, quota, and expiry."""

from __future__ import annotations

from hashlib import sha256

import pytest

from patchbay.catalogue.contents.results import Results, key_in_query, without_key
from patchbay.cid import cid_of
from patchbay.store import Store

KEY = b"k" * 32


def opened(results: Results, uri: str | None, principal: str = "ada") -> bytes | None:
    assert uri is not None
    cid, _, query = uri.removeprefix("cid://").partition("?")
    return results.read(cid, key_in_query(query), principal)


def test_a_result_opens_by_its_link_for_its_principal_in_every_process(store: Store) -> None:
    uri = Results(store, KEY, 60, 1000).keep(b"large", "ada")
    another = Results(store, KEY, 60, 1000)
    assert opened(another, uri) == b"large"
    assert opened(another, uri, "bob") is None
    assert opened(Results(store, b"x" * 32, 60, 1000), uri) is None
    assert store.blobs.missing([cid_of(b"large")]) == [cid_of(b"large")]


@pytest.mark.parametrize("key", ["", "x", "A" * 43, "\u20ac", "\ud800", "a" * 100_000])
def test_any_other_key_opens_nothing(store: Store, key: str) -> None:
    results = Results(store, KEY, 60, 1000)
    results.keep(b"large", "ada")
    assert results.read(cid_of(b"large"), key, "ada") is None


def test_the_same_result_has_the_same_link_and_is_kept_once(store: Store) -> None:
    results = Results(store, KEY, 60, 10)
    links = {results.keep(b"12345678", "ada") for _ in range(20)}
    assert len(links) == 1 and opened(results, links.pop()) == b"12345678"


def test_the_oldest_results_of_an_owner_give_way_to_a_new_one(store: Store) -> None:
    results = Results(store, KEY, 60, 100)
    theirs = results.keep(b"b" * 100, "bob")
    links = [results.keep(b"%d" % number * 30, "ada") for number in range(5)]
    assert [opened(results, link) is not None for link in links] == [False, False, True, True, True]
    assert opened(results, theirs, "bob") == b"b" * 100
    assert opened(results, results.keep(b"0" * 30, "ada")) == b"0" * 30


def test_a_result_beyond_the_quota_is_not_stored_and_removes_no_other(store: Store) -> None:
    results = Results(store, KEY, 60, 100)
    link = results.keep(b"small", "ada")
    assert results.keep(b"x" * 101, "ada") is None
    assert opened(results, link) == b"small"


def test_a_result_ends(store: Store) -> None:
    results = Results(store, KEY, 0, 100)
    link = results.keep(b"short", "ada")
    assert opened(results, link) is None
    store.journal.sweep()
    assert store.journal.tail(f"results/{_owner(store)}/{cid_of(b'short')}") == []


def _owner(store: Store) -> str:
    return sha256(b"ada").hexdigest()[:32]


def test_records_hold_the_address_of_a_large_result_without_its_key() -> None:
    assert without_key("cid://bafk?key=secret") == "cid://bafk"
    assert without_key("server://jq/jq?filter=.") == "server://jq/jq?filter=."
