"""Authentication with a token that the hub's authorization server signed and did not store; implements `Scheme`.

Sources: RFC 6750, section 3.1; RFC 8707, section 2; RFC 9728, section 5.1.
"""

from __future__ import annotations

from typing import Protocol

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.principals import Principal
from patchbay.access.tokens.audiences import list_audiences
from patchbay.access.tokens.challenges import make_challenge


class SignedTokens(Protocol):
    """One kind of tokens, all of which begin with `prefix`."""

    prefix: str

    def verify(self, token: str) -> tuple[Principal, str] | None:
        """Return the principal and the resource of a token; None for one that is not valid, or not any more."""


class SignedTokenScheme:
    """Proves the principal of a signed token, at its resource only."""

    def __init__(self, tokens: SignedTokens) -> None:
        self._tokens = tokens

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of a token; None for credentials of another scheme.

        Raises Unauthorized for a token that has ended, or is for another resource.
        """
        token = credentials.token
        if token is None or not token.startswith(self._tokens.prefix):
            return None
        found = self._tokens.verify(token)
        if found is None:
            raise _refused(credentials, "the access token has ended, or its client was revoked: get a new one")
        principal, resource = found
        if resource not in list_audiences(credentials.resource, credentials.url, credentials.prefix):
            raise _refused(credentials, "the access token is for another resource: get one for this resource")
        return principal


def _refused(credentials: Credentials, reason: str) -> Unauthorized:
    return Unauthorized(reason, make_challenge(credentials, error="invalid_token", reason=reason))
