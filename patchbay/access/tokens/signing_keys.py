"""The public keys of the issuer, fetched when they are needed and kept while the issuer is down.

An unknown key id fetches the keys once, so that a token with a new key is valid at once. When the fetch does not bring
the key, there is no other fetch for COOL_DOWN_SECONDS: a flood of tokens with made-up key ids causes one fetch. Calls
that wait for one fetch share it, and at most MAX_WAITING_CALLS wait. Old keys are fetched again in the background, so
that a key which the issuer withdraws stops working.
Sources: RFC 7517, section 5 (JWK set); OpenID Connect Core 1.0, section 10.1.1 (rotation of keys).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from patchbay.access.tokens.algorithms import ALGORITHMS
from patchbay.access.tokens.problems import IssuerUnavailable, WrongToken
from patchbay.access.tokens.signed_json import Malformed, PublicKey, SignedJson, load_public_key
from patchbay.background import run_in_background

log = logging.getLogger(__name__)

COOL_DOWN_SECONDS = 10.0
"""Seconds without another fetch after one that failed, or that did not bring the key of a token."""

REFRESH_SECONDS = 300.0
"""Age of the keys, in seconds, at which the next call starts a fetch in the background."""

MAX_KEYS = 100
MAX_WAITING_CALLS = 64
"""Calls of one process that may wait for the issuer at once; others get 503."""


def load_keys(document: dict[str, Any]) -> list[PublicKey]:
    """Return the usable keys of a JWK set: keys for encryption, shared secrets and unknown types are left out.

    Raises IssuerUnavailable for a document that is not a JWK set.
    """
    rows = document.get("keys")
    if not isinstance(rows, list) or len(rows) > MAX_KEYS:
        raise IssuerUnavailable(f"the issuer's keys are not a JWK set of at most {MAX_KEYS} keys")
    keys = []
    for row in rows:
        is_for_signatures = isinstance(row, dict) and row.get("use", "sig") == "sig"
        operations = row.get("key_ops") if isinstance(row, dict) else None
        if is_for_signatures and (not isinstance(operations, list) or "verify" in operations):
            with suppress(Malformed):
                keys.append(load_public_key(row))
    return keys


def check_algorithm(token: SignedJson) -> None:
    """Check that a token names an accepted algorithm. Raises WrongToken."""
    if token.algorithm not in ALGORITHMS:
        raise WrongToken("the algorithm of the token is not accepted")


class SigningKeys:
    """The keys of one issuer. `fetch` returns its JWK set or raises IssuerUnavailable; `clock` counts seconds."""

    def __init__(self, fetch: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._thumbprints: frozenset[str] = frozenset()
        self._fetch_count = 0
        self._has_keys = False
        self._next_fetch = self._next_refresh = float("-inf")
        self._fetching = threading.Lock()
        self._waiting = threading.Semaphore(MAX_WAITING_CALLS)

    def has(self, thumbprint: str) -> bool:
        """Whether the issuer still has the key with this thumbprint, as far as this process knows."""
        self._refresh_old_keys()
        return thumbprint in self._thumbprints

    def find(self, token: SignedJson) -> PublicKey | None:
        """Return the key that a token names, after a fetch if it is unknown; None for an unknown key.

        A token without a key id fits when the issuer has only one key for its algorithm. Raises IssuerUnavailable while
        no keys are known.
        """
        self._refresh_old_keys()
        count = self._fetch_count
        found = self._select(token)
        if found is None:
            self._fetch_missing(count, token)
            found = self._select(token)
        if not self._has_keys:
            raise IssuerUnavailable
        return found

    def verify(self, token: SignedJson) -> str:
        """Return the thumbprint of the key that signed a token. Raises WrongToken, IssuerUnavailable."""
        check_algorithm(token)
        key = self.find(token)
        if key is None:
            raise WrongToken("the issuer has no key with the id and the algorithm that the token names")
        if not key.verifies(token):
            raise WrongToken("the signature of the token is wrong")
        return key.thumbprint

    def _select(self, token: SignedJson) -> PublicKey | None:
        id = token.header.get("kid")
        fitting = [key for key in self._keys if token.algorithm in key.algorithms and id in (None, key.id)]
        return fitting[0] if len(fitting) == 1 or (fitting and id is not None) else None

    def _fetch_missing(self, count: int, token: SignedJson) -> None:
        """Fetch the keys, unless another call has fetched them since they were counted, or the cool-down lasts."""
        if self._clock() < self._next_fetch:
            return
        if not self._waiting.acquire(blocking=False):
            raise IssuerUnavailable
        try:
            with self._fetching:
                if self._fetch_count != count or self._clock() < self._next_fetch:
                    return
                if not self._replace_keys() or self._select(token) is None:
                    self._next_fetch = self._clock() + COOL_DOWN_SECONDS
        finally:
            self._waiting.release()

    def _refresh_old_keys(self) -> None:
        """Start a fetch in the background when the keys are old. The present keys stay valid meanwhile."""
        if not self._has_keys or self._clock() < self._next_refresh or not self._fetching.acquire(blocking=False):
            return
        self._next_refresh = self._clock() + REFRESH_SECONDS
        run_in_background("issuer-keys", self._refresh)

    def _refresh(self) -> None:
        try:
            self._replace_keys()
        finally:
            self._fetching.release()

    def _replace_keys(self) -> bool:
        """Fetch the keys and replace the present ones. On a failure the present keys stay; return whether it worked."""
        try:
            keys = load_keys(self._fetch())
        except IssuerUnavailable as problem:
            kept = "the last keys stay in use" if self._has_keys else "no token can be checked"
            log.warning("the keys of the issuer cannot be fetched, %s: %s", kept, problem.message)
            return False
        self._keys = tuple(keys)
        self._thumbprints = frozenset(key.thumbprint for key in keys)
        self._has_keys = True
        self._next_refresh = self._clock() + REFRESH_SECONDS
        self._fetch_count += 1
        return True
