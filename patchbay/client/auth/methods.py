"""The ways to sign in to a server, as frozen values, and the path of a server's token file.

`oauth.py` and `token_files.py` use them; this module does not load the official client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ShowUrl = Callable[[str], None]
"""Shows a person the URL to sign in at, for example in a browser. May block; raises nothing."""


@dataclass(frozen=True, slots=True)
class BrowserSignIn:
    """A person signs in with a browser. Without `show_url` a sign-in fails: SignInNeeded with `hint`.

    `client_id` (and `client_secret`) name a registration made beforehand; `metadata_url` is a client metadata document,
    for servers that support those; without both the client registers itself. `issuer` is an authorization server that
    may be at a private address; other authorization servers that the server names have to be public.
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
    algorithm: str = "ES256"
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class IdentityAssertion:
    """A client that presents an assertion. `assertion(audience, resource)` requests it, on the loop (SEP-990)."""

    folder: Path
    client_id: str
    client_secret: str
    issuer: str
    assertion: Callable[[str, str], Awaitable[str]]
    scope: str | None = None
    method: str = "client_secret_basic"


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """A program that presents a token of its platform. `assertion(audience)` requests it, on the loop (SEP-1933)."""

    folder: Path
    client_id: str
    issuer: str
    assertion: Callable[[str], Awaitable[str]]
    scope: str | None = None


class TokenSource(Protocol):
    """The access tokens of one person or program for one server, which another part of the program keeps."""

    def get_token(self, refused: str = "") -> str:
        """Return an access token that has not expired and is not `refused`. May block.

        Raises SignInNeeded without one, Unreachable when it cannot be refreshed now.
        """
        ...


@dataclass(frozen=True, slots=True)
class SuppliedTokens:
    """A connection that sends the tokens of a source, and requests none itself. `issuer` is always None."""

    source: TokenSource
    issuer: None = None


SignIn = BrowserSignIn | ClientCredentials | IdentityAssertion | WorkloadIdentity | SuppliedTokens


def get_token_path(folder: Path, url: str) -> Path:
    """Get the path of the token file of the server at `url`."""
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
