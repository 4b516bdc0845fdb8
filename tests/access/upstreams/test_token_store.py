"""Tokens at mounted servers in the store: sealed, deleted with their principal, refreshed by one process at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.access.upstreams.deletion import forget_principal, tokens_topic
from patchbay.access.upstreams.refresh_lease import LEASE_SECONDS, hold_lease
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.access.upstreams.token_store import MAX_UPSTREAMS, TokenStore
from patchbay.caller_accounts.credentials import StoredAccount, Upstream
from patchbay.client.addresses.targets import Http
from patchbay.client.auth.token_clients import IssuedTokens, TokenClient
from patchbay.client.errors import SignInNeeded
from patchbay.errors import ToolFailed
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import UPSTREAM_PRINCIPALS

KEY = b"k" * 32
FAR = Upstream("far", Http("https://far.example/mcp"))
CLIENT = TokenClient(
    issuer="https://issuer.example",
    token_url="https://issuer.example/token",
    client_id="hub",
    resource="https://far.example/mcp",
)


def tokens(text: str, seconds: float = 3600) -> IssuedTokens:
    return IssuedTokens(access_token=text, refresh_token=f"refresh {text}", expires=time.time() + seconds)


def get_token(account: StoredAccount) -> str:
    """A token of an account at which somebody has signed in."""
    assert account.tokens is not None
    return account.tokens.get_token()


def test_each_principal_has_its_own_tokens_and_a_new_sign_in_replaces_them() -> None:
    known = TokenStore(MemoryStore(), KEY, "http://hub")
    assert known.find("ann", FAR) is None
    first = known.connect("ann", FAR, CLIENT, tokens("one"), "ann")
    known.connect("ben", FAR, CLIENT, tokens("two"), "ben")
    source = known.find("ann", FAR)
    assert source is not None
    assert (source.id, get_token(source)) == (first.id, "one")
    again = known.connect("ann", FAR, CLIENT, tokens("three"), "ann")
    assert again.id != first.id
    with pytest.raises(SignInNeeded):
        get_token(source)
    assert list(known.list_principals(FAR)) == ["ann", "ben"]
    assert known.find("ann", Upstream("far", Http("https://elsewhere.example/mcp"))) is None
    assert known.find("ann", Upstream("other", FAR.target)) is None


def test_a_stored_value_is_sealed_for_its_principal_and_for_the_key_of_the_hub() -> None:
    store = MemoryStore()
    TokenStore(store, KEY, "http://hub").connect("ann", FAR, CLIENT, tokens("a secret"), "ann")
    (entry,) = store.journal.read(tokens_topic("ann"))
    assert b"secret" not in entry.data
    assert b"far.example" not in entry.data
    store.journal.append(tokens_topic("mallory"), entry.data)
    assert TokenStore(store, KEY, "http://hub").find("mallory", FAR) is None
    assert TokenStore(store, b"x" * 32, "http://hub").find("ann", FAR) is None
    assert TokenStore(store, KEY, "http://hub").find("ann", FAR) is not None


def test_a_new_account_above_the_limit_ends_the_oldest() -> None:
    """48.4"""
    store = MemoryStore()
    known = TokenStore(store, KEY, "http://hub")
    ups = [Upstream(f"far{n}", Http(f"https://far{n}.example/mcp")) for n in range(MAX_UPSTREAMS + 1)]
    for one in ups:
        known.connect("ann", one, CLIENT, tokens("one"), "ann")
    assert len(known.list_accounts("ann")) == MAX_UPSTREAMS
    assert known.find("ann", ups[0]) is None and known.find("ann", ups[-1]) is not None
    assert len(store.journal.read(tokens_topic("ann"))) == 1


def test_past_tokens_are_deleted_with_each_change() -> None:
    store = MemoryStore()
    known = TokenStore(store, KEY, "http://hub")
    for text in ("one", "two", "three"):
        account = known.connect("ann", FAR, CLIENT, tokens(text), "ann")
    assert len(store.journal.read(tokens_topic("ann"))) == 1
    assert known.disconnect("ann", account.id) is not None
    assert known.disconnect("ann", account.id) is None
    assert known.find("ann", FAR) is None


def test_a_removed_principal_has_no_tokens_in_any_process() -> None:
    store = MemoryStore()
    here, there = TokenStore(store, KEY, "http://hub"), TokenStore(store, KEY, "http://hub")
    here.connect("ann", FAR, CLIENT, tokens("one"), "ann")
    assert there.find("ann", FAR) is not None
    forget_principal(store.journal, "ann")
    assert store.journal.read(tokens_topic("ann")) == []
    assert here.find("ann", FAR) is None
    assert there.find("ann", FAR) is None
    assert list(there.list_principals(FAR)) == []


def test_tokens_that_expired_and_cannot_be_refreshed_end_the_sign_in() -> None:
    known = TokenStore(MemoryStore(), KEY, "http://hub")
    spent = IssuedTokens(access_token="one", expires=time.time() - 1)
    known.connect("ann", FAR, CLIENT, spent, "ann")
    found = known.find("ann", FAR)
    assert found is not None
    with pytest.raises(SignInNeeded, match="has expired"):
        get_token(found)
    assert known.find("ann", FAR) is None


def test_a_hub_for_strangers_has_no_credentials_of_callers() -> None:
    known = TokenStore(MemoryStore(), KEY, "http://hub", is_open=True)
    with pytest.raises(ToolFailed, match="--access shared"):
        known.find("local", FAR)
    assert list(known.list_principals(FAR)) == []


def test_a_lease_has_one_holder_in_all_processes(tmp_path: Path) -> None:
    """Two stores of one folder are what two processes have."""
    stores = [open_store("sqlite", tmp_path) for _ in range(2)]
    holders, most = [0], [0]
    lock = threading.Lock()

    def hold(number: int) -> None:
        with hold_lease(stores[number % 2], f"{UPSTREAM_PRINCIPALS}test"):
            with lock:
                holders[0] += 1
                most[0] = max(most[0], holders[0])
            stores[0].journal.last("anything")
            with lock:
                holders[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, range(24)))
    assert most == [1]
    for store in stores:
        store.close()


def test_a_lease_of_a_process_that_ended_is_over_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    topic = f"{UPSTREAM_PRINCIPALS}test"
    store.journal.append(topic, b"held")
    monkeypatch.setattr(store, "now", lambda: time.time() + LEASE_SECONDS + 1)
    with hold_lease(store, topic):
        assert len(store.journal.read(topic)) == 2
    assert store.journal.read(topic) == []


def test_sealed_records_keep_only_what_was_written_last() -> None:
    store = MemoryStore()
    records = SealedRecords(store.journal, TokenClient, KEY)
    assert records.load("one") == (None, 0)
    assert records.update("one", lambda old: CLIENT)
    assert not records.update("one", lambda old: None)
    found, seq = records.load("one")
    assert found == CLIENT
    assert store.journal.last("one") == seq
