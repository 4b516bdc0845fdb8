"""The credential of one caller at one server behind this hub, and where the hub keeps what callers have connected.

`patchbay/access/upstreams/` keeps the accounts; `way.py` says how a call gets its credential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from patchbay.caller_accounts.fields import CredentialField
from patchbay.client.addresses.targets import Http, Stdio, mask_url
from patchbay.client.auth.methods import CredentialSource, TokenSource
from patchbay.client.auth.token_clients import DescribedIssuer
from patchbay.store import Bus

CALLER, HUB = "caller", "hub"
"""The values of the field `account`: whose account a mounted server sees."""

SIGN_IN, KEY, FORWARD = "sign-in", "key", "forward"
EXCHANGE, ASSERTION = "exchange", "assertion"
"""Values of the field `way`: how a server gets the credential of each caller."""

PAGE = "/upstreams"
"""The page where callers connect their accounts; below it, one page for each server."""

MAX_PRINCIPALS = 100
"""Principals with an account at an upstream that are listed, at most."""

OPEN_PREFIXES = (f"{PAGE}/callback/", f"{PAGE}/client/")
"""The paths that are served to every request: the answer of an authorization server proves its sender itself."""


@dataclass(frozen=True, slots=True)
class ExchangeTerms:
    """Where a token for a server is made of the caller's own: the authorization server, and what it gets.

    `audience` is the configured name of the server there, empty without one. `identity_client_id` and
    `identity_client_secret` are those of the hub at the issuer of the caller's token, for an identity assertion.
    """

    issuer: str = ""
    audience: str = ""
    identity_client_id: str = ""
    identity_client_secret: str = field(default="", repr=False)


NO_TERMS = ExchangeTerms()


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that wants the credentials of each caller: the name of the mount, and how it is reached.

    `client_id`, `client_secret` and `scope` are those of the configuration, empty without. `described` is the
    authorization server of an HTTP API; None for an MCP server, which names it itself. `way` is how callers connect,
    and `fields` is what they enter (KEY). `address` is that of a program, as the configuration has it. `audience` is
    the configured identifier of the server at the authorization server, empty without one. `exchange` is for
    the ways EXCHANGE and ASSERTION.
    """

    server: str
    target: Http | Stdio
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    described: DescribedIssuer | None = None
    way: str = SIGN_IN
    fields: tuple[CredentialField, ...] = ()
    address: str = ""
    audience: str = ""
    exchange: ExchangeTerms = NO_TERMS

    @property
    def resource(self) -> str:
        """The identifier of the server at an authorization server (RFC 8707): what is configured, or its URL."""
        return self.audience or (self.target.url.partition("?")[0] if isinstance(self.target, Http) else "")

    @property
    def key(self) -> str:
        """The key of stored accounts, from name, address and way: a mount of another address has another key."""
        place = self.target.url if isinstance(self.target, Http) else f"program {self.address}"
        text = f"{self.server}\n{place}" + ("" if self.way == SIGN_IN else f"\n{self.way}")
        return sha256(text.encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The URL, or the command line of a program, for people."""
        return mask_url(self.target.url) if isinstance(self.target, Http) else self.target.label


def digest_account(principal: str, id: str) -> str:
    """Return a digest of an account, with 16 hexadecimal digits."""
    return sha256(f"{principal}\n{id}".encode(errors="surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class CallerCredential:
    """The credential of a principal for one server. `id` names it: another credential has another id.

    `source` has what requests carry; None for a program, whose process gets `environment` instead. `secrets` are the
    texts that no message shows, as far as they are known beforehand. `is_renewed` says that it ends by time, and
    that the next one of the same session takes its place. `may_continue` says whether its caller may still use the
    server; a stored account ends by itself.
    """

    principal: str
    id: str
    source: CredentialSource | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    is_renewed: bool = False
    may_continue: Callable[[], bool] = field(default=lambda: True, repr=False, compare=False)

    @property
    def account(self) -> str:
        """The digest of the account, for names that do not show the principal."""
        return digest_account(self.principal, self.id)


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """What the hub keeps for one principal at one upstream. `id` is new each time that the account is connected.

    `tokens` are those of a sign-in, `values` is what the caller entered, by the name of the field. `is_refused`: the
    upstream has refused it.
    """

    principal: str
    id: str
    tokens: TokenSource | None = None
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_refused: bool = False


class CallerCredentials(Protocol):
    """The accounts of all principals at all upstreams."""

    @property
    def bus(self) -> Bus:
        """The bus with a message on UPSTREAM_SIGN_INS_CHANGED for each account that is connected or disconnected."""
        ...

    def find(self, principal: str, upstream: Upstream) -> StoredAccount | None:
        """Return the account of a principal, None before it is connected. Raises ToolFailed where callers have none."""
        ...

    def list_principals(self, upstream: Upstream) -> Sequence[str]:
        """Return principals that have connected an account at an upstream, the first one first."""
        ...

    def note_refusal(self, principal: str, upstream: Upstream, id: str) -> None:
        """Remember that the upstream refused the account with this id, for the page of the account."""
        ...

    def page_url(self, path: str, base_url: str) -> str:
        """Return the URL of a page of the hub; `base_url` is how the caller reached the hub, "" if unknown."""
        ...
