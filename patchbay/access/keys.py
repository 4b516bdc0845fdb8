"""Personal keys: long random tokens that an operator makes, with an expiry and, if wanted, fewer rights.

The hub stores the SHA-256 of a key, never the key: its 256 random bits need no slow hash. A key has a name, and the
principal of its requests is `key:NAME`; a new key of the same name, after the old one was revoked, is the same
principal. Keys are entries of the journal, so that every worker has them at once.
Sources: RFC 6750 (bearer tokens); RFC 4648, section 5 (base64url).
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256

import orjson

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.credentials.names import name_key
from patchbay.access.decisions import is_scope
from patchbay.access.principals import KEY_IDS, Principal
from patchbay.access.upstreams.deletion import forget_principal
from patchbay.background import run_in_background
from patchbay.boot.grants import check_can_match, check_pattern
from patchbay.errors import ConfigError, InvalidParams, PatchbayError, StaleUpdate
from patchbay.store import Journal, Store
from patchbay.topics import KEY_USES, KEYS

log = logging.getLogger(__name__)

PREFIX = "patchbay_key_"
"""The first characters of a key. They identify a leaked key as one of Patchbay."""

CHECK_SECONDS = 0.5
"""Seconds between two looks at the journal: a revoked key works at most so much longer in other workers."""

USE_SECONDS = 60.0
"""Seconds between two records of the use of a key."""

KEPT_USE_SECONDS = 400 * 24 * 3600.0
"""Seconds that the last use of a key is kept."""

MAX_KEYS = 10_000
"""Keys of one hub that are not revoked, at most."""

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


class UnknownKey(PatchbayError):
    """There is no key of this name, or it was revoked before."""

    code, status = -32602, 404


class KeyExists(PatchbayError):
    """A key of this name works already."""

    code, status = -32602, 409


@dataclass(frozen=True)
class Key:
    """One key. `made`, `expires` and `used` are Unix times in seconds; None: it does not expire, or was not used yet.

    `scopes` narrow what the key may do; None does not narrow it. `public_keys` is the JSON text of a JWK set with which
    a program proves itself in place of the key; empty for a key that is a secret.
    """

    name: str
    digest: str
    made: float
    expires: float | None = None
    scopes: frozenset[str] | None = None
    used: float | None = None
    public_keys: str = ""

    @cached_property
    def principal(self) -> Principal:
        """The principal of the requests with this key."""
        return Principal(KEY_IDS + self.name, name=self.name, scopes=self.scopes, credential=name_key(self.digest))

    def is_expired(self, now: float) -> bool:
        """Whether the key has expired."""
        return self.expires is not None and now >= self.expires


class PersonalKeys:
    """The keys of one hub, and the authentication scheme that proves them. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Callable[[], float] | None = None) -> None:
        self._journal: Journal = store.journal
        self.now = clock or store.now
        self._lock = threading.RLock()
        self._seq = 0
        self._looked = -CHECK_SECONDS
        self._by_name: dict[str, Key] = {}
        self._by_digest: dict[str, Key] = {}
        # The keys that callers sent, so that the next call needs no digest. Only keys of this hub are here, so they are
        # few; Python salts the hashes of texts, so the time of a lookup says nothing about a key.
        self._by_token: dict[str, Key] = {}
        self._expiries: list[float] = []
        self._noted: dict[str, float] = {}

    def make(
        self, name: str, expires: float | None = None, scopes: Iterable[str] | None = None, public_keys: str = ""
    ) -> str:
        """Make a key and return it; the hub cannot show it again. `expires` is a Unix time in seconds.

        With `public_keys`, a JWK set as JSON, no request can prove itself with the returned text: leave it out.

        Raises InvalidParams for a wrong name, time or scope, KeyExists for the name of a key that works.
        """
        kept = None if scopes is None else sorted(set(scopes))
        _check(name, expires, kept, self.now())
        token = PREFIX + secrets.token_urlsafe(32)
        row = {"name": name, "digest": _digest(token), "made": self.now(), "expires": expires, "scopes": kept}
        if public_keys:
            row |= {"digest": _digest(secrets.token_urlsafe(32)), "public_keys": public_keys}
        while True:
            with self._lock:
                self._read()
                known, seq = self._by_name.get(name), self._seq
                if known is not None and not known.is_expired(self.now()):
                    raise KeyExists(f"a key is called {name} already: choose another name, or revoke that key first")
                if len(self._by_name) >= MAX_KEYS:
                    raise InvalidParams(f"the hub has {MAX_KEYS} keys: revoke one first")
            try:
                self._journal.append_all([(KEYS, orjson.dumps({"key": row}), None)], {KEYS: seq})
            except StaleUpdate:
                continue  # another process made or revoked a key in the meantime
            return token

    def revoke(self, name: str) -> None:
        """Revoke a key in every worker: its streams end, and its tokens at mounted servers are deleted.

        Raises UnknownKey.
        """
        with self._lock:
            self._read()
            if name not in self._by_name:
                raise UnknownKey(f"there is no key {name!r:.80}: `patchbay key list` shows the keys")
            self._journal.append(KEYS, orjson.dumps({"revoked": name, "at": self.now()}))
            self._read()
        forget_principal(self._journal, KEY_IDS + name)

    def all(self) -> list[Key]:
        """Return the keys that are not revoked, by name, each with its last use; expired ones are among them."""
        with self._lock:
            self._read()
            keys = sorted(self._by_name.values(), key=lambda key: key.name)
        return [replace(key, used=self._last_use(key.name)) for key in keys]

    def find_named(self, name: str, digest: str = "") -> Key | None:
        """Return the key of this name, and of this digest if one is given, when it works."""
        self._read_new_entries()
        key = self._by_name.get(name)
        if key is None or key.digest != digest:  # another process may have made it just now
            with self._lock:
                self._read()
            key = self._by_name.get(name)
        if key is None or digest not in ("", key.digest) or key.is_expired(self.now()):
            return None
        return key

    def has_digest(self, start: str) -> bool:
        """Whether a key works whose digest begins in this way."""
        with self._lock:
            self._read()
            return any(
                digest.startswith(start) and not key.is_expired(self.now()) for digest, key in self._by_digest.items()
            )

    def note_use(self, name: str) -> None:
        """Record the use of a key from time to time, in a thread: a request never waits for it."""
        now = time.monotonic()
        if now - self._noted.get(name, -USE_SECONDS) >= USE_SECONDS:
            self._noted[name] = now
            run_in_background("use of a key", self._write_use, name)

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of a key; None for credentials of another scheme. Raises Unauthorized."""
        token = credentials.token
        if token is None or not token.startswith(PREFIX):
            return None
        principal = self.find_principal(token)
        if principal is None:
            raise Unauthorized(
                "this key is unknown to the hub, expired or revoked: ask the operator for a new one",
                'Bearer realm="patchbay", error="invalid_token"',
            )
        return principal

    def find_principal(self, token: str) -> Principal | None:
        """Return the principal of a key; None for a text that is not a key of this hub, or not any more."""
        now = time.monotonic()
        if now - self._looked >= CHECK_SECONDS:
            self._read_new_entries()
        key = self._by_token.get(token) or self._find(token)
        if key is None or (key.expires is not None and key.is_expired(self.now())):
            return None
        if now - self._noted.get(key.name, -USE_SECONDS) >= USE_SECONDS:
            self.note_use(key.name)
        return key.principal

    def is_current(self, sender: Principal) -> bool:
        """Whether the key of a sender is the present one of its name, and has not expired.

        A sender without the name of a credential, which an earlier version stored, has a key of its name and scopes.
        Before the answer no, the journal is read: another process may have made the key just now.
        """
        self._read_new_entries()
        if self._is_present(sender):
            return True
        with self._lock:
            self._read()
        return self._is_present(sender)

    def _is_present(self, sender: Principal) -> bool:
        key = self._by_name.get(sender.subject.removeprefix(KEY_IDS))
        if key is None or key.is_expired(self.now()):
            return False
        if not sender.credential:
            return sender.scopes == key.principal.scopes
        return sender.credential == key.principal.credential

    def look(self) -> tuple[int, int]:
        """Read new entries now; return two numbers, one of which changes when a key is made, revoked or expires."""
        with self._lock:
            self._read()
            self._looked = time.monotonic()
            return self._seq, bisect_right(self._expiries, self.now())

    def _find(self, token: str) -> Key | None:
        self._read_new_entries()
        digest, by_token = _digest(token), self._by_token
        # A hash is looked up, not a key: the time of the lookup says nothing about any key.
        key = self._by_digest.get(digest)
        if key is None:  # another process may have made it just now
            with self._lock:
                self._read()
                by_token = self._by_token
            key = self._by_digest.get(digest)
        if key is None or key.is_expired(self.now()):
            return None
        by_token[token] = key
        return key

    def _read_new_entries(self) -> None:
        """Read new entries of the journal, at most every CHECK_SECONDS."""
        now = time.monotonic()
        if now - self._looked >= CHECK_SECONDS:
            with self._lock:
                self._read()
                self._looked = now

    def _read(self) -> None:
        """Apply the entries of the journal since the last look. The caller holds the lock."""
        if self._journal.last(KEYS) == self._seq:
            return
        keys = dict(self._by_name)
        while entries := self._journal.read(KEYS, self._seq):
            for entry in entries:
                self._seq = entry.seq
                _apply(keys, entry.data)
        self._by_name = keys
        self._by_digest = {key.digest: key for key in keys.values()}
        self._by_token = {}
        self._expiries = sorted(key.expires for key in keys.values() if key.expires is not None)

    def _write_use(self, name: str) -> None:
        try:
            self._journal.append(KEY_USES + name, b"1", KEPT_USE_SECONDS)
            self._journal.trim(KEY_USES + name, 1)
        except PatchbayError as problem:
            log.warning("the last use of the key %s is not recorded: %s", name, problem)

    def _last_use(self, name: str) -> float | None:
        newest = self._journal.tail(KEY_USES + name, 1)
        return newest[0].at if newest else None


def parse_expiry(text: str | None, now: float) -> float | None:
    """Return the Unix time of an expiry: a time from now on such as `90d`, `12h`, `30m`, or an ISO 8601 date or time.

    A time without an offset is in UTC. None stays None. Raises InvalidParams.
    """
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit in UNIT_SECONDS and number.isascii() and number.isdigit() and len(number) < 8:
        return now + int(number) * UNIT_SECONDS[unit]
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as problem:
        raise InvalidParams(f"expected a time such as 90d, 12h or 2027-01-31; got {text!r:.60}") from problem


def _apply(keys: dict[str, Key], data: bytes) -> None:
    """Apply one entry of the journal."""
    entry = orjson.loads(data)
    if "revoked" in entry:
        keys.pop(entry["revoked"], None)
        return
    row = entry["key"]
    scopes = None if row["scopes"] is None else frozenset(row["scopes"])
    public = row.get("public_keys", "")
    keys[row["name"]] = Key(row["name"], row["digest"], row["made"], row["expires"], scopes, public_keys=public)


def _check(name: str, expires: float | None, scopes: list[str] | None, now: float) -> None:
    """Check the fields of a new key. Raises InvalidParams."""
    if not _NAME.fullmatch(name):
        raise InvalidParams(f"the name of a key must have 1 to 64 of A-Z a-z 0-9 _ . @ -; it is {name!r:.80}")
    if expires is not None and expires <= now:
        raise InvalidParams("the key would expire in the past: expected a later time, such as 30d")
    wrong = [scope for scope in scopes or () if not is_scope(scope)]
    if wrong:
        raise InvalidParams(f"expected grants such as call:notes.*, read:notes or see; got {wrong[0]!r:.80}")
    for scope in scopes or ():
        pattern = scope.partition(":")[2]
        try:
            if pattern:
                check_pattern(pattern, scope, "")
                check_can_match(pattern, scope, "")
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem


def is_key(key: Key, token: str) -> bool:
    """Whether a text is this key."""
    return hmac.compare_digest(_digest(token), key.digest)


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
