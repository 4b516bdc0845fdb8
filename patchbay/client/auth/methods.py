"""The ways to sign in to a server, as frozen values, and the path of a server's token file.

`oauth.py` and `token_files.py` use them; this module does not load the official client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from patchbay.client.errors import CredentialsRefused

MIN_SECRET_CHARACTERS = 6
"""Minimum characters of a secret; removing shorter values would make a sentence unreadable."""

ShowUrl = Callable[[str], None]
"""Shows a person the URL to sign in at, for example in a browser. May block; raises nothing."""


@dataclass(frozen=True, slots=True)
class BrowserSignIn:
    """A person signs in with a browser. Without `show_url` a sign-in fails: SignInNeeded with `hint`.

    `client_id` (and `client_secret`) name a registration made beforehand; `metadata_url` is a client metadata document,
    for servers that support those; without both the client registers itself. `issuer` is an authorization server that
    may be at a private address; other authorization servers that the server names have to be public. Beside a
    `client_id`, `issuer` is the only authorization server that the client signs in at.
    """

    folder: Path
    show_url: ShowUrl | None = None
    hint: str = "sign in once on a terminal: patchbay inspect <the same address>"
    name: str = "Patchbay"
    metadata_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    port: int = 0
    issuer: str | None = None

    @property
    def account(self) -> str:
        """The part of the name of the token file that is special to this client; "" for one that registers itself."""
        return _join_account("browser", self.client_id, self.issuer, self.scope) if self.client_id else ""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client that signs in by itself, with a secret or with a private key (PEM) that it signs with.

    `issuer` is the authorization server that knows the client; the credentials are sent only there.
    """

    folder: Path
    client_id: str
    issuer: str
    client_secret: str | None = None
    private_key: str | None = None
    scope: str | None = None

    @property
    def account(self) -> str:
        """The part of the name of the token file that is special to this client."""
        return _join_account("client-credentials", self.client_id, self.issuer, self.scope)


@dataclass(frozen=True, slots=True)
class IdentityAssertion:
    """A client that presents an assertion of an identity provider (SEP-990).

    `identity_token_url` is the token endpoint of the identity provider, which knows this client as
    `identity_client_id`. `read_id_token` returns the identity token of the user; it runs on the event loop, and
    does not block.
    """

    folder: Path
    client_id: str
    client_secret: str
    issuer: str
    identity_token_url: str
    identity_client_id: str
    read_id_token: Callable[[], str]
    scope: str | None = None

    @property
    def account(self) -> str:
        """The part of the name of the token file that is special to this client."""
        return _join_account("identity", self.client_id, self.issuer, self.scope, self.identity_client_id)


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """A program that presents a token of its platform, which `read_token` returns without blocking (SEP-1933)."""

    folder: Path
    client_id: str
    issuer: str
    read_token: Callable[[], str]
    scope: str | None = None

    @property
    def account(self) -> str:
        """The part of the name of the token file that is special to this client."""
        return _join_account("workload", self.client_id, self.issuer, self.scope)


class TokenSource(Protocol):
    """The access tokens of one person or program for one server, which another part of the program keeps."""

    def get_token(self, refused: str = "") -> str:
        """Return an access token that has not expired and is not `refused`. May block.

        Raises SignInNeeded without one, Unreachable when it cannot be refreshed now.
        """
        ...


@dataclass(frozen=True, slots=True)
class RequestParts:
    """What authenticates a request: headers, and pairs of the query. Their values are shown nowhere."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    values: frozenset[str] = field(default=frozenset(), repr=False)
    """What the headers and the query were made of."""

    @property
    def secrets(self) -> frozenset[str]:
        """The texts that no message shows: the values, also after a scheme such as Bearer and in the form of a URL."""
        return list_secret_texts([*self.headers.values(), *(value for _, value in self.query), *self.values])


def list_secret_texts(values: Iterable[str]) -> frozenset[str]:
    """Return the texts in which secret values may appear: as they are, after a scheme, and in the form of a URL."""
    texts = {*values}
    texts |= {text.partition(" ")[2] for text in texts if " " in text}
    long = {text for text in texts if len(text) >= MIN_SECRET_CHARACTERS}
    return frozenset(long | {quote(text, safe="") for text in long})


class CredentialSource(Protocol):
    """The credential of one person or program for one server, which another part of the program keeps."""

    def get_parts(self, refused: RequestParts | None = None) -> RequestParts:
        """Return what the next request carries, which is not `refused`. May block.

        Raises SignInNeeded without one, Unreachable when it cannot be renewed now.
        """
        ...


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """A CredentialSource that sends the tokens of a source as `Authorization: Bearer`."""

    source: TokenSource

    def get_parts(self, refused: RequestParts | None = None) -> RequestParts:
        """Return the header with a token. Raises SignInNeeded, Unreachable."""
        text = refused.headers.get("Authorization", "").removeprefix("Bearer ") if refused is not None else ""
        return RequestParts({"Authorization": f"Bearer {self.source.get_token(text)}"})


@dataclass(frozen=True, slots=True)
class FixedCredential:
    """A CredentialSource of a credential that has no other form once the server at `label` refuses it."""

    parts: RequestParts
    label: str

    def get_parts(self, refused: RequestParts | None = None) -> RequestParts:
        """Return the credential. Raises CredentialsRefused for a refused one."""
        if refused is not None:
            raise CredentialsRefused(f"{self.label} refuses the credential of the caller")
        return self.parts


@dataclass(frozen=True, slots=True)
class SuppliedCredential:
    """A connection that sends the credential of a source, and requests none itself. `issuer` is always None."""

    source: CredentialSource
    issuer: None = None


SignIn = BrowserSignIn | ClientCredentials | IdentityAssertion | WorkloadIdentity | SuppliedCredential


def get_token_path(folder: Path, url: str, account: str = "") -> Path:
    """Get the path of the token file of the server at `url`, for one account there."""
    name = f"{url}\n{account}" if account else url
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


def _join_account(*parts: str | None) -> str:
    return "\n".join(part or "" for part in parts)
