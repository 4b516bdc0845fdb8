"""The ways in which an authorization server makes a token for the server out of the caller's own access token.

The caller's token is one of the outside issuer of this hub, which the hub has verified. It goes to the token endpoints
that the configuration and the issuer name, and nowhere else. What comes back is kept in memory for one caller, one
server and one token of the caller: a client with fewer scopes never gets what another client of its person obtained.
It is kept until the first of both tokens expires.
Sources: RFC 8693, section 2; RFC 9700, section 2.3 (restricted privileges).
"""

from __future__ import annotations

import secrets
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from patchbay.activation import PAUSE, Call, Cancelled, pauses
from patchbay.background import run_in_background
from patchbay.caller_accounts.credentials import KEY, CallerCredential, Upstream
from patchbay.caller_accounts.recent_caller import RecentCaller
from patchbay.caller_accounts.verified_tokens import VerifiedToken, find_verified_token
from patchbay.caller_accounts.way import Fields, Reach, Require, WayContext
from patchbay.client.auth.methods import FixedCredential, RequestParts
from patchbay.client.auth.obtained_tokens import ObtainedToken, TokenRefused
from patchbay.client.errors import SignInNeeded
from patchbay.errors import ConfigError, TimedOut, ToolFailed
from patchbay.events import Event

if TYPE_CHECKING:
    from patchbay.client.auth.token_exchange import TokenServer

MAX_OBTAINED = 10_000
"""Tokens of all callers at one server that are kept; the one unused longest goes."""

MAX_SERVERS = 8
"""Authorization servers that one mount is a client of at a time."""

MARGIN_SECONDS = 5.0
"""Seconds before its end from which a token is not used for another call."""

_SALT = secrets.token_bytes(32)


_Caller = tuple[str, Callable[[], bool]]
"""A principal, and what says later whether it may still use the server."""


@dataclass(frozen=True, slots=True)
class _Obtained:
    """A credential that was made for a caller. `expires` is Unix time in seconds."""

    credential: CallerCredential
    expires: float


class ObtainedCredentials:
    """The tokens of callers at one mount; a subclass says how they are made."""

    is_stored = False
    needs_caller_for_lists = True

    def __init__(self, context: WayContext) -> None:
        self._context = context
        self._recent = RecentCaller(context)
        self._kept: OrderedDict[bytes, _Obtained] = OrderedDict()
        self._servers: dict[tuple[str, str, str, bool], TokenServer] = {}
        self._lock = threading.Lock()
        self._asking: dict[bytes, Future[_Obtained]] = {}
        """What authorization servers are asked for now, on threads of their own."""

    @abstractmethod
    def obtain(self, upstream: Upstream, token: VerifiedToken) -> ObtainedToken:
        """Get a token for the server. Raises TokenRefused, Unreachable, ToolFailed."""

    @property
    def upstream(self) -> Upstream:
        """The server. Raises ConfigError for a missing profile or variable."""
        return self._context.find_upstream()

    def require(self, call: Call, refused: str = "") -> Require:
        """Return the credential of the caller, which is obtained first if needed. Raises ToolFailed, Unreachable."""
        upstream, token = self.upstream, find_verified_token(call)
        if token is None:
            raise ToolFailed(
                f"{upstream.server} gets a token that is made of your own: expected a signed access token of the issuer"
                " of this hub in the request, not a key, an account of the hub or a call without a request; connect"
                " with a client that signs in at that issuer"
            )
        found = yield from self._find(call, upstream, token, refused)
        self._recent.remember(found.credential, found.expires)
        return found.credential

    def explain(self, call: Call) -> str:
        """Say that the server refuses what was made for the caller."""
        return (
            f"{self._context.name} refused the token that was made of yours for {self.upstream.label}: ask the operator"
            " whether its authorization server, audience and scope are configured as the server expects"
        )

    def is_current(self, principal: str, id: str) -> bool:
        """A token belongs to the call that brought the caller's own; it ends by time."""
        return True

    def has_for_lists(self) -> bool:
        """Whether a caller with a token has called."""
        return self._recent.find() is not None

    def find_for_lists(self, tries: int) -> CallerCredential:
        """Return the credential of the newest caller. Raises SignInNeeded."""
        found = self._recent.find()
        if found is None:
            raise SignInNeeded(f"no caller with a token for {self.upstream.label} has called yet")
        return found

    def _find(
        self, call: Call, upstream: Upstream, token: VerifiedToken, refused: str
    ) -> Generator[Event, Any, _Obtained]:
        """Return the kept credential, or wait for a new one until the call ends.

        Calls with one token of a caller wait for one answer, and for no answer to another caller.
        """
        taken = self._take(call, upstream, token, refused)
        for wait in pauses(call):
            with suppress(TimeoutError):
                return taken.result(wait)
            yield PAUSE
            if call.cancelled:
                raise Cancelled(call.cancelled.describe())
            if call.left() <= 0:
                raise TimedOut(f"timed out while an authorization server made a token for {upstream.server}")
        raise AssertionError("the pauses of a call have no end")

    def _take(self, call: Call, upstream: Upstream, token: VerifiedToken, refused: str) -> Future[_Obtained]:
        """Return the kept credential that was not refused, or what becomes a new one."""
        key = blake2b(f"{call.principal}\n{upstream!r}\n{token.text}".encode(), key=_SALT, digest_size=16).digest()
        with self._lock:
            kept, taken = self._kept.get(key), self._asking.get(key)
            if kept is not None and kept.credential.id != refused and time.time() < kept.expires - MARGIN_SECONDS:
                self._kept.move_to_end(key)
                taken = Future()
                taken.set_result(kept)
            if taken is not None:
                return taken
            taken = self._asking[key] = Future()
        try:
            caller = call.principal, call.find_continuing()
            run_in_background("obtaining a token", self._obtain_for, key, taken, caller, upstream, token)
        except RuntimeError as problem:  # the system has no thread left
            with self._lock:
                del self._asking[key]
            taken.set_exception(ToolFailed(f"{upstream.server} was not called for you: {problem}; try again later"))
        return taken

    def _obtain_for(
        self, key: bytes, taken: Future[_Obtained], caller: _Caller, upstream: Upstream, token: VerifiedToken
    ) -> None:
        """Make a credential and keep it, for all who wait for it."""
        try:
            made = self._make(caller, upstream, token)
        except BaseException as problem:
            with self._lock:
                del self._asking[key]
            taken.set_exception(problem)
            return
        with self._lock:
            del self._asking[key]
            self._keep(key, made)
        taken.set_result(made)

    def _keep(self, key: bytes, made: _Obtained) -> None:
        """Keep a credential in place of ended ones. The caller holds the lock."""
        now = time.time()
        for ended in [each for each, one in self._kept.items() if one.expires <= now]:
            del self._kept[ended]
        self._kept[key] = made
        while len(self._kept) > MAX_OBTAINED:
            self._kept.popitem(last=False)

    def server_at(self, issuer: str, client_id: str, client_secret: str, is_public: bool = False) -> TokenServer:
        """Return the hub as a client of an authorization server; the same one as long as nothing changes.

        With `is_public` it has to be at a public address, as the server of a mount that may not explore the network.
        """
        from patchbay.client.auth.token_exchange import TokenServer

        key = (issuer, client_id, client_secret, is_public)
        with self._lock:
            if key not in self._servers:
                if len(self._servers) >= MAX_SERVERS:  # a secret has changed again and again
                    self._servers.clear()
                self._servers[key] = TokenServer(*key)
            return self._servers[key]

    def _make(self, caller: _Caller, upstream: Upstream, token: VerifiedToken) -> _Obtained:
        try:
            obtained = self.obtain(upstream, token)
        except TokenRefused as problem:
            raise ToolFailed(f"{upstream.server} was not called for you: {problem.message}") from problem
        source = FixedCredential(RequestParts({"Authorization": f"Bearer {obtained.text}"}), upstream.label)
        hidden = frozenset((token.text, obtained.text))
        credential = CallerCredential(
            *(caller[0], secrets.token_hex(8), source),
            secrets=hidden,
            is_renewed=True,
            may_continue=caller[1],
        )
        return _Obtained(credential, min(obtained.expires, token.expires))


def check_client(
    fields: Fields, reach: Reach, where: str, way: str, known: Sequence[str], needed: Sequence[str]
) -> None:
    """Check the fields of a configuration, and of its `oauth`, for one of these ways. Raises ConfigError."""
    if reach == "program":
        raise ConfigError(where, "way", f'expected "{KEY}" for a program: only the server at a URL gets tokens')
    oauth = fields.get("oauth", {})
    for name in oauth:
        if name not in known:
            raise ConfigError(where, f"oauth.{name}", f'expected only {", ".join(known)} with "way": "{way}"')
    for name in needed:
        if not oauth.get(name):
            raise ConfigError(where, f"oauth.{name}", f'expected a value with "way": "{way}"')
    for name in known:
        if name.endswith("secret") and "${" not in oauth.get(name, "${"):
            raise ConfigError(where, f"oauth.{name}", "expected a variable such as ${NAME}, not a secret")
    if any(name.lower() == "authorization" for name in fields.get("headers", {})):
        raise ConfigError(where, "headers", "expected no header Authorization: each caller's own token is sent in it")
