"""The accounts of principals at mounted servers: tokens of a sign-in, or values that they entered.

They are sealed in the journal and shown on no page. All accounts of one principal are one record. An account has a new
id each time that it is connected, so that a connection that was opened with an earlier credential is not used with a
later one. The principals of an upstream are also a list, for reading its lists.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from typing import Any

from patchbay.access.upstreams.deletion import tokens_topic
from patchbay.access.upstreams.refresh_lease import hold_lease
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.caller_accounts.credentials import MAX_PRINCIPALS, StoredAccount, Upstream
from patchbay.caller_accounts.fields import check_values
from patchbay.client.auth.token_clients import IssuedTokens, TokenClient
from patchbay.client.errors import SignInNeeded
from patchbay.coordination.records import Records
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.store import Bus, Journal, Store
from patchbay.topics import UPSTREAM_PRINCIPALS, UPSTREAM_REFRESHES, UPSTREAM_SIGN_INS_CHANGED

log = logging.getLogger(__name__)

CODE_FLOW = "patchbay.client.auth.code_flow"
"""The module that requests tokens. It loads the official client, so that it is imported when it is needed."""

EXPIRY_MARGIN_SECONDS = 30
"""Seconds before its expiry from which an access token is not used any more."""

MAX_UPSTREAMS = 100
"""Mounted servers at which one principal may have tokens."""


@dataclass(frozen=True, slots=True)
class ConnectedAccount:
    """The account of a principal at one upstream. `at` is Unix time, `by` the principal that connected the account.

    `tokens` are those of a sign-in, at which the hub was `client`; `values` is what the caller entered instead, by the
    name of the field. `refused_at` is the Unix time at which the upstream refused it, 0 if it did not.
    """

    id: str
    key: str
    server: str
    label: str
    at: float
    by: str
    client: TokenClient | None = None
    tokens: IssuedTokens | None = field(default=None, repr=False)
    values: dict[str, str] = field(default_factory=dict, repr=False)
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Accounts:
    """All connected accounts of one principal."""

    accounts: tuple[ConnectedAccount, ...] = ()

    def without(self, *keys: str) -> tuple[ConnectedAccount, ...]:
        return tuple(each for each in self.accounts if each.key not in keys)


@dataclass(frozen=True, slots=True)
class _Principals:
    principals: tuple[str, ...] = ()


class TokenStore:
    """The tokens of one hub; implements `CallerCredentials`. Safe to use from many threads and processes.

    `base_url` is the URL of the hub for callers whose way to it is unknown. `is_open` says that strangers are served:
    then they all are one principal, which has no credentials of its own.
    """

    def __init__(self, store: Store, key: bytes, base_url: str, is_open: bool = False) -> None:
        self._store = store
        self._journal: Journal = store.journal
        self._base_url = base_url
        self._is_open = is_open
        self._records = SealedRecords(store.journal, _Accounts, key)
        self._principals = Records(store.journal, _Principals)
        self._cache: dict[str, tuple[int, _Accounts]] = {}
        self._locks = [threading.Lock() for _ in range(64)]

    @property
    def bus(self) -> Bus:
        """The bus with a message on UPSTREAM_SIGN_INS_CHANGED for each new sign-in."""
        return self._store.bus

    def page_url(self, path: str, base_url: str) -> str:
        """Return the URL of a page of the hub; `base_url` is how the caller reached the hub, "" if unknown."""
        return (base_url or self._base_url) + path

    def find(self, principal: str, upstream: Upstream) -> StoredAccount | None:
        """Return the account of a principal at an upstream, None without. Raises ToolFailed in a hub for strangers."""
        if self._is_open:
            raise ToolFailed(
                f"{upstream.server} needs an account of each caller, and an open hub cannot tell its callers apart:"
                " start it with --access shared"
            )
        account = self.find_account(principal, upstream.key)
        if account is None:
            return None
        source = _Source(self, principal, upstream, account.id) if account.tokens is not None else None
        return StoredAccount(principal, account.id, source, account.values, account.refused_at > 0)

    def list_principals(self, upstream: Upstream) -> Sequence[str]:
        """Return principals that have tokens at an upstream, the first one first."""
        if self._is_open:
            return ()
        found = self._principals.load(UPSTREAM_PRINCIPALS + upstream.key)[0]
        names = found.principals if found is not None else ()
        return [name for name in names if self.find_account(name, upstream.key) is not None]

    def list_accounts(self, principal: str) -> tuple[ConnectedAccount, ...]:
        """Return the accounts that a principal has connected, by server."""
        return tuple(sorted(self._load(principal).accounts, key=lambda each: each.server))

    def find_account(self, principal: str, key: str) -> ConnectedAccount | None:
        """Return the account of a principal at the upstream with this key."""
        return next((each for each in self._load(principal).accounts if each.key == key), None)

    def connect(
        self, principal: str, upstream: Upstream, client: TokenClient, tokens: IssuedTokens, by: str
    ) -> ConnectedAccount:
        """Keep the tokens of a sign-in; an earlier account at the same upstream is replaced."""
        return self._connect(principal, self._make(upstream, by, client=client, tokens=self._in_store_time(tokens)))

    def connect_values(
        self, principal: str, upstream: Upstream, values: Mapping[str, str], by: str
    ) -> ConnectedAccount:
        """Keep what a caller entered for an upstream; an earlier account there is replaced.

        Raises InvalidParams for a value that cannot be used; the message does not show it.
        """
        return self._connect(principal, self._make(upstream, by, values=check_values(upstream.fields, values)))

    def _make(self, upstream: Upstream, by: str, **own: Any) -> ConnectedAccount:
        return ConnectedAccount(
            secrets.token_hex(8), upstream.key, upstream.server, upstream.label, self._store.now(), by, **own
        )

    def _connect(self, principal: str, account: ConnectedAccount) -> ConnectedAccount:
        def added(old: _Accounts | None) -> _Accounts:
            rest = (old or _Accounts()).without(account.key)
            return _Accounts(accounts=(*rest[1 - MAX_UPSTREAMS :], account))

        def add_principal(old: _Principals | None) -> _Principals | None:
            names = tuple(each for each in (old.principals if old else ()) if self.find_account(each, account.key))
            return None if principal in names else _Principals(principals=(*names, principal)[:MAX_PRINCIPALS])

        self._records.update(tokens_topic(principal), added)
        self._principals.update(UPSTREAM_PRINCIPALS + account.key, add_principal)
        self.bus.publish(UPSTREAM_SIGN_INS_CHANGED, account.key.encode())
        return account

    def note_refusal(self, principal: str, upstream: Upstream, id: str) -> None:
        """Remember that the upstream refused an account, for its page; once for each account."""
        known = self.find_account(principal, upstream.key)
        if known is None or known.id != id or known.refused_at:
            return

        def noted(old: _Accounts | None) -> _Accounts:
            each_account = (old or _Accounts()).accounts
            return _Accounts(
                accounts=tuple(
                    replace(each, refused_at=self._store.now()) if each.id == id else each for each in each_account
                )
            )

        self._records.update(tokens_topic(principal), noted)

    def disconnect(self, principal: str, id: str) -> ConnectedAccount | None:
        """Delete the tokens of one sign-in; return what was deleted, None without one."""
        gone = next((each for each in self._load(principal).accounts if each.id == id), None)
        if gone is None:
            return None

        def removed(old: _Accounts | None) -> _Accounts:
            return _Accounts(accounts=tuple(each for each in (old or _Accounts()).accounts if each.id != id))

        self._records.update(tokens_topic(principal), removed)
        self.bus.publish(UPSTREAM_SIGN_INS_CHANGED, gone.key.encode())
        return gone

    def revoke(self, upstream: Upstream, account: ConnectedAccount) -> None:
        """End deleted tokens at the authorization server too; a failure is logged."""
        if account.client is None or account.tokens is None:
            return
        try:
            import_module(CODE_FLOW).revoke(upstream.target, account.client, account.tokens)
        except PatchbayError as problem:
            log.info("the deleted tokens for %s are not revoked: %s", upstream.server, problem.message)

    def fresh_token(self, principal: str, upstream: Upstream, id: str, refused: str) -> str:
        """Return an access token of one sign-in that has not expired and is not `refused`; refresh it if needed.

        Raises SignInNeeded when the sign-in is over, Unreachable when the authorization server does not answer.
        """
        tokens = self._current(principal, upstream, id)[1]
        if self._is_usable(tokens, refused):
            return tokens.access_token
        topic = UPSTREAM_REFRESHES + sha256(f"{principal}\n{upstream.key}".encode()).hexdigest()
        with self._locks[hash(topic) % len(self._locks)], hold_lease(self._store, topic):
            client, tokens = self._current(principal, upstream, id)
            if self._is_usable(tokens, refused):  # another thread or process has refreshed it
                return tokens.access_token
            return self._refresh(principal, upstream, id, client, tokens)

    def _refresh(self, principal: str, upstream: Upstream, id: str, client: TokenClient, tokens: IssuedTokens) -> str:
        try:
            if not tokens.refresh_token:
                raise SignInNeeded(f"the sign-in at {upstream.label} has expired")
            fresh = self._in_store_time(import_module(CODE_FLOW).refresh(upstream.target, client, tokens))
        except SignInNeeded:
            self.disconnect(principal, id)
            raise

        def renewed(old: _Accounts | None) -> _Accounts | None:
            known = (old or _Accounts()).accounts
            if not any(each.id == id for each in known):
                return None  # disconnected in the meantime
            return _Accounts(accounts=tuple(replace(each, tokens=fresh) if each.id == id else each for each in known))

        if not self._records.update(tokens_topic(principal), renewed):
            raise SignInNeeded(f"the account at {upstream.label} was disconnected")
        return fresh.access_token

    def _current(self, principal: str, upstream: Upstream, id: str) -> tuple[TokenClient, IssuedTokens]:
        account = self.find_account(principal, upstream.key)
        if account is None or account.id != id or account.client is None or account.tokens is None:
            raise SignInNeeded(f"the caller is not signed in at {upstream.label}")
        return account.client, account.tokens

    def _is_usable(self, tokens: IssuedTokens, refused: str) -> bool:
        if not tokens.access_token or tokens.access_token == refused:
            return False
        return tokens.expires is None or tokens.expires - EXPIRY_MARGIN_SECONDS > self._store.now()

    def _in_store_time(self, tokens: IssuedTokens) -> IssuedTokens:
        """Return new tokens with their end in the store's time: the client counted it with this machine's clock."""
        ahead = round(self._store.now() - time.time())
        return tokens if tokens.expires is None else replace(tokens, expires=tokens.expires + ahead)

    def _load(self, principal: str) -> _Accounts:
        """Return the accounts of a principal; a record is opened again only after a change."""
        topic = tokens_topic(principal)
        seq = self._journal.last(topic)
        known = self._cache.get(topic)
        if known is None or known[0] != seq:
            found, seq = self._records.load(topic)
            if len(self._cache) >= 4 * MAX_PRINCIPALS:
                self._cache.clear()
            known = self._cache[topic] = seq, found or _Accounts()
        return known[1]


@dataclass(frozen=True, slots=True)
class _Source:
    """The tokens of one sign-in; implements `TokenSource`."""

    store: TokenStore
    principal: str
    upstream: Upstream
    id: str

    def get_token(self, refused: str = "") -> str:
        """Return an access token. Raises SignInNeeded, Unreachable."""
        return self.store.fresh_token(self.principal, self.upstream, self.id, refused)
