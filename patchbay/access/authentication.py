"""Authentication of requests: each scheme looks at the credentials of a request and proves a principal, or leaves them
to the next scheme.

Sources: RFC 9110, section 11 (`Authorization`, `WWW-Authenticate`); RFC 6750, section 3; RFC 9728, section 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from patchbay.access.principals import Principal
from patchbay.errors import Refused


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request carries to prove its sender.

    `method` and `url` are the request's (`url` without query and fragment, as the client wrote it); `headers` maps
    lower-case names to values; `cookies` maps names to values. `resource` is the URL of the MCP endpoint, the audience
    that a token must have; empty where the request is not for an MCP endpoint. `address` is the peer's IP address.
    `prefix` is the path of the hub in these URLs.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""
    address: str = ""
    prefix: str = ""

    @property
    def token(self) -> str | None:
        """The token of `Authorization: Bearer` or `Authorization: DPoP`; None without one."""
        return token_in(self.headers.get("authorization", ""))


def token_in(authorization: str) -> str | None:
    """Return the token in the value of `Authorization`; None for another scheme than Bearer and DPoP."""
    if authorization.startswith("Bearer "):  # of nearly every request, and quicker than the general way
        return authorization[7:].strip()
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "dpop") else None


class Unauthorized(Refused):
    """The credentials are missing or wrong (401). `challenge` is the value of `WWW-Authenticate`.

    `is_guess` says that a guess of a secret may have caused it: the hub limits such guesses by address. An access token
    that has expired is not a guess; clients send it once more before they refresh it.
    """

    status = 401
    is_guess = True

    def __init__(self, message: str, challenge: str = "Bearer") -> None:
        super().__init__(message)
        self.challenge = challenge


class InsufficientScope(Refused):
    """The token is valid, but it lacks the scope that this request needs (403)."""

    status = 403

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class Scheme(Protocol):
    """One way to prove a principal: the operator's token, a personal key, a session cookie, an access token."""

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal that these credentials prove; None when they belong to no one of this scheme.

        Raises Unauthorized for credentials of this scheme that are wrong.
        """


def authenticate(schemes: Sequence[Scheme], credentials: Credentials) -> Principal | None:
    """Return the principal of the first scheme that knows these credentials; None for a request without any.

    Raises Unauthorized for a token that no scheme knows.
    """
    for scheme in schemes:
        if (principal := scheme.authenticate(credentials)) is not None:
            return principal
    if credentials.token is not None:
        raise Unauthorized("the token is unknown to this hub, expired or revoked: sign in again", _INVALID)
    return None


_INVALID = 'Bearer error="invalid_token"'
