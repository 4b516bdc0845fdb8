"""The way `forward`: headers of the caller's own request that the configuration names go on to the server.

Nothing is stored. The caller's token for this hub never goes on, nor a cookie, nor a header that describes this one
request. With `"trust": "same-issuer"` the header Authorization goes on, but only a token that an outside issuer made
for the server too: its audience names the URL of the server.
Sources: RFC 9110, sections 5.5 and 7.6.1; MCP specification, basic/authorization (access token privilege restriction).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator
from hashlib import blake2b
from typing import Any

from patchbay.activation import Call
from patchbay.caller_accounts.credentials import FORWARD, CallerCredential, Upstream
from patchbay.caller_accounts.recent_caller import RecentCaller
from patchbay.caller_accounts.verified_tokens import VerifiedToken, find_verified_token
from patchbay.caller_accounts.way import Fields, Reach, Require, Way, WayContext
from patchbay.client.addresses.targets import check_headers
from patchbay.client.auth.methods import FixedCredential, RequestParts
from patchbay.client.errors import SignInNeeded
from patchbay.errors import ConfigError, InvalidParams, ToolFailed
from patchbay.events import Event

SAME_ISSUER = "same-issuer"
"""The value of `trust` with which the caller's token goes on."""

MAX_HEADERS = 20
MAX_VALUE_CHARACTERS = 4096
"""Maximum characters of one header that goes on."""

AUTHORIZATION = "authorization"

_NEVER = re.compile(
    r"cookie2?|set-cookie2?|proxy-.*|sec-.*|mcp-.*|x-patchbay-.*|dpop|host|origin|referer"
    r"|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept(-.*)?|date"
    r"|forwarded|via|x-forwarded-.*|x-real-ip|last-event-id|traceparent|tracestate|baggage"
)
"""Names in lower case of headers that are about this request or this hub alone."""

_SALT = secrets.token_bytes(32)


class ForwardedHeaders:
    """The headers of callers that go on to one server."""

    is_stored = False

    def __init__(self, context: WayContext) -> None:
        self._context = context
        self._trusts = context.settings.trust == SAME_ISSUER
        self._recent = RecentCaller(context)

    @property
    def upstream(self) -> Upstream:
        """The server. Raises ConfigError for a missing profile or variable."""
        return self._context.find_upstream()

    @property
    def needs_caller_for_lists(self) -> bool:
        """Whether the server wants a token of a caller for its lists too."""
        return self._trusts

    def require(self, call: Call, refused: str = "") -> Require:
        """Return what goes on of the caller's request. Raises ToolFailed for a header that may not go on."""
        yield from _no_events()
        if refused:
            raise ToolFailed(self.explain(call))
        token = self._find_token(call) if self._trusts else None
        headers = self._find_headers(call) | ({"Authorization": f"Bearer {token.text}"} if token is not None else {})
        text = "\n".join(f"{name}: {value}" for name, value in sorted(headers.items()))
        digest = blake2b(f"{call.principal}\n{text}".encode(), key=_SALT, digest_size=16).hexdigest()
        source = FixedCredential(RequestParts(headers), self.upstream.label)
        hidden = frozenset({token.text}) if token is not None else frozenset[str]()
        credential = CallerCredential(
            call.principal, digest, source, secrets=hidden, may_continue=call.find_continuing()
        )
        if token is not None:
            self._recent.remember(credential, token.expires)
        return credential

    def explain(self, call: Call) -> str:
        """Say which headers the server has refused."""
        names = [*self._context.settings.forward, *(["Authorization"] if self._trusts else [])]
        return (
            f"{self._context.name} refused what your client sends for it: expected other values of the headers"
            f" {', '.join(names)}, which go on to {self.upstream.label}"
        )

    def is_current(self, principal: str, id: str) -> bool:
        """A header belongs to the call that brought it; the call ends with its caller."""
        return True

    def has_for_lists(self) -> bool:
        """Whether the lists can be read now."""
        return not self._trusts or self._recent.find() is not None

    def find_for_lists(self, tries: int) -> CallerCredential | None:
        """Return the token of the newest caller, None where the lists need none. Raises SignInNeeded."""
        if not self._trusts:
            return None
        found = self._recent.find()
        if found is None:
            raise SignInNeeded(f"no caller with a token for {self.upstream.label} has called yet")
        return found

    def _find_headers(self, call: Call) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in self._context.settings.forward:
            value = call.find_header(name.lower())
            if value is None:
                continue
            if len(value) > MAX_VALUE_CHARACTERS:
                raise ToolFailed(
                    f"the header {name} does not go on to {self._context.name}: expected at most"
                    f" {MAX_VALUE_CHARACTERS} characters; your client sent {len(value)}"
                )
            found[name] = value
        try:
            check_headers(found, f"not sent to {self._context.name}")
        except InvalidParams as problem:
            raise ToolFailed(problem.message) from problem
        return found

    def _find_token(self, call: Call) -> VerifiedToken:
        """Return the caller's token if it is for the server too. Raises ToolFailed."""
        upstream, token = self.upstream, find_verified_token(call)
        wanted = upstream.resource
        if token is None:
            raise ToolFailed(
                f"{upstream.server} wants a token of the issuer of this hub: expected a signed access token for"
                f" {wanted}, not a key or an account of the hub"
            )
        if wanted not in token.audiences:
            raise ToolFailed(
                f"your token does not go on to {upstream.server}: expected {wanted} among its audiences (aud);"
                " request a token for both resources"
            )
        return token


def _no_events() -> Generator[Event, Any, None]:
    """Yield nothing: the caller is asked nothing."""
    yield from ()


def _check(fields: Fields, reach: Reach, where: str) -> None:
    if reach == "program":
        raise ConfigError(where, "way", 'expected "key" for a program: it gets no headers')
    names, trust = fields.get("forward", []), fields.get("trust")
    if not names and trust is None:
        raise ConfigError(where, "forward", 'expected the names of headers that go on, such as ["X-Tenant"]')
    if len(names) > MAX_HEADERS:
        raise ConfigError(where, "forward", f"expected at most {MAX_HEADERS} headers")
    own = {name.lower() for name in fields.get("headers", {})}
    for number, name in enumerate(names):
        place = f"forward.{number}"
        if name.lower() == AUTHORIZATION:
            raise ConfigError(
                where, place, f'expected "trust": "{SAME_ISSUER}" for Authorization: a token for this hub never goes on'
            )
        if _NEVER.fullmatch(name.lower()):
            raise ConfigError(where, place, f"expected a header of its own; {name} is about one request to this hub")
        if name.lower() in own:
            raise ConfigError(where, place, f"expected {name} in headers or in forward, not in both")
    if trust is not None and AUTHORIZATION in own:
        raise ConfigError(where, "headers", "expected no header Authorization: each caller's own token is sent in it")


WAY = Way(
    FORWARD,
    "headers of each caller's own request go on",
    frozenset({"forward", "trust", "oauth"}),
    _check,
    ForwardedHeaders,
)
