"""Credentials of each caller at a server behind this hub: what a kind of server needs to know of them.

A kind that sends each caller's own token calls `require_sign_in` before its request. A caller without tokens is asked
to sign in on a page of the hub: by elicitation in URL mode, or by a link in the error for clients that cannot show it.
`patchbay/access/upstreams/` keeps the tokens.
Source: MCP specification 2025-11-25 and 2026-07-28, client/elicitation (URL mode).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote

from patchbay.activation import PAUSE, Call, Cancelled, pauses
from patchbay.client.addresses.targets import Http, mask_url
from patchbay.client.auth.methods import TokenSource
from patchbay.client.auth.token_clients import DescribedIssuer
from patchbay.errors import ServerFailed, ToolFailed
from patchbay.events import Ask, Event, Question
from patchbay.store import Bus
from patchbay.topics import UPSTREAM_SIGN_INS_CHANGED

CALLER, HUB = "caller", "hub"
"""The values of the field `account`: whose account a mounted server sees."""

PAGE = "/upstreams"
"""The page where callers connect their accounts; below it, one page for each server."""

OPEN_PREFIXES = (f"{PAGE}/callback/", f"{PAGE}/client/")
"""The paths that are served to every request: the answer of an authorization server proves its sender itself."""

SIGN_IN_SECONDS = 120.0
"""Seconds that a call waits until its caller has signed in; most clients keep a call open that long."""

ELICITATION = "elicitation/create"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that wants the credentials of each caller: the name of the mount, and how it is reached.

    `client_id`, `client_secret` and `scope` are those of the configuration, empty without. `described` is the
    authorization server of an HTTP API; None for an MCP server, which names it itself.
    """

    server: str
    target: Http
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    described: DescribedIssuer | None = None

    @property
    def key(self) -> str:
        """The key of stored tokens, from name and address: a mount of another address has another key."""
        return sha256(f"{self.server}\n{self.target.url}".encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The URL for people."""
        return mask_url(self.target.url)


@dataclass(frozen=True, slots=True)
class CallerTokens:
    """The tokens of one principal at one upstream. `id` is new for each sign-in."""

    id: str
    source: TokenSource


class CallerCredentials(Protocol):
    """The tokens of all principals at all upstreams."""

    @property
    def bus(self) -> Bus:
        """The bus with a message on UPSTREAM_SIGN_INS_CHANGED for each new sign-in."""
        ...

    def find(self, principal: str, upstream: Upstream) -> CallerTokens | None:
        """Return the tokens of a principal, None before its sign-in. Raises ToolFailed where callers have none."""
        ...

    def list_principals(self, upstream: Upstream) -> Sequence[str]:
        """Return principals that are signed in at an upstream, the first one first."""
        ...

    def page_url(self, path: str, base_url: str) -> str:
        """Return the URL of a page of the hub; `base_url` is how the caller reached the hub, "" if unknown."""
        ...


class CallersAccounts:
    """The accounts of callers at one mount: where they sign in, and their tokens.

    `find_upstream` returns where callers sign in, and raises ConfigError for a configuration that cannot say it.
    `credentials` is None for a hub that keeps no tokens of callers.
    """

    def __init__(self, name: str, find_upstream: Callable[[], Upstream], credentials: CallerCredentials | None) -> None:
        self._name = name
        self._find_upstream = find_upstream
        self._credentials = credentials

    @property
    def upstream(self) -> Upstream:
        """Where callers sign in. Raises ConfigError for a missing profile or variable."""
        return self._find_upstream()

    @property
    def credentials(self) -> CallerCredentials:
        """The tokens of callers. Raises ToolFailed for a hub that keeps none."""
        if self._credentials is None:
            raise ServerFailed(f"{self._name} needs an account of each caller, and no caller can sign in here")
        return self._credentials

    def require(self, call: Call) -> Generator[Event, Any, CallerTokens]:
        """Return the tokens of a caller, who is asked to sign in first if needed. Raises ToolFailed."""
        return require_sign_in(self.credentials, self.upstream, call)

    def explain(self, call: Call) -> str:
        """Say where a caller signs in whose token was refused."""
        return sign_in_sentence(self.upstream, sign_in_url(self.credentials, self.upstream, call))


def require_sign_in(
    credentials: CallerCredentials, upstream: Upstream, call: Call
) -> Generator[Event, Any, CallerTokens]:
    """Return the tokens of a caller, who is asked to sign in first if needed.

    Raises ToolFailed with the link when the caller's client cannot be asked, or the caller does not sign in in time.
    """
    found = credentials.find(call.principal, upstream)
    if found is not None:
        return found
    url = sign_in_url(credentials, upstream, call)
    if not _can_ask(call):
        raise ToolFailed(sign_in_sentence(upstream, url))
    yield from _ask(upstream, url, call)
    found = yield from _wait(credentials, upstream, call)
    if found is None:
        raise ToolFailed(sign_in_sentence(upstream, url))
    return found


def sign_in_url(credentials: CallerCredentials, upstream: Upstream, call: Call) -> str:
    """Return the URL of the page where the caller connects its account.

    The URL proves nothing: the page connects the person who opens it. Only an administrator connects for a key.
    """
    whose = f"?for={quote(call.principal, safe='')}" if call.principal.startswith("key:") else ""
    return credentials.page_url(f"{PAGE}/{quote(upstream.server, safe='')}{whose}", call.find_base_url())


def sign_in_sentence(upstream: Upstream, url: str) -> str:
    """Say to a caller, or to the model of its client, where to sign in."""
    return (
        f"{upstream.server} needs your own account at {upstream.label}. Open this page in a browser in which you are"
        f" signed in to the hub, connect the account, then send the same call again: {url}"
    )


def _can_ask(call: Call) -> bool:
    """Whether the caller's client shows URLs. A tool that another tool calls may not ask."""
    declared = call.capabilities.get("elicitation")
    return len(call.chain) <= 1 and isinstance(declared, Mapping) and isinstance(declared.get("url"), Mapping)


def _ask(upstream: Upstream, url: str, call: Call) -> Generator[Event, Any, None]:
    """Ask the client to open the URL. Raises ToolFailed if the person does not want to."""
    key = f"sign-in-{upstream.key}"
    params = {
        "mode": "url",
        "message": f"{upstream.server} needs your own account at {upstream.label}: connect it on a page of this hub.",
        "url": url,
        "elicitationId": secrets.token_urlsafe(16),
    }
    answers = yield Ask({key: Question(ELICITATION, params)})
    answer = answers.get(key) if isinstance(answers, Mapping) else None
    if not isinstance(answer, Mapping) or answer.get("action") != "accept":
        raise ToolFailed(f"not called: you did not connect your account at {upstream.label}")


def _wait(credentials: CallerCredentials, upstream: Upstream, call: Call) -> Generator[Event, Any, CallerTokens | None]:
    """Wait until the caller has signed in; None after SIGN_IN_SECONDS. The deadline moves with the wait."""
    begun = call.left()
    call.deadline += SIGN_IN_SECONDS
    try:
        with credentials.bus.subscribe([UPSTREAM_SIGN_INS_CHANGED]) as mailbox:
            for seconds in pauses(call):
                if (found := credentials.find(call.principal, upstream)) is not None:
                    return found
                if (left := call.left() - begun) <= 0:
                    return None
                mailbox.get(min(seconds, left))
                yield PAUSE
                if call.cancelled:
                    raise Cancelled(f"cancelled: {call.cancelled.reason}")
    finally:
        # The call keeps the time that it had before.
        call.deadline -= max(0.0, call.left() - begun)
    return None
