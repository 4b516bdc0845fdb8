"""Authentication with a token that the hub's authorization server signed and did not store; implements `Scheme`.

Sources: RFC 6750, section 3.1; RFC 8707, section 2; RFC 9728, section 5.1.
"""

from __future__ import annotations

from typing import Protocol

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.oauth.access_token_scheme import RefusedAccessToken
from patchbay.access.oauth.programs import EndedToken
from patchbay.access.principals import Principal
from patchbay.access.tokens.audiences import list_audiences
from patchbay.access.tokens.challenges import make_challenge


class SignedTokens(Protocol):
    """One kind of tokens, all of which begin with `prefix`."""

    prefix: str

    def verify(self, token: str) -> tuple[Principal, str] | None:
        """Return the principal and the resource of a token; None for one that this hub did not sign.

        Raises EndedToken for one that is not valid any more.
        """


class SignedTokenScheme:
    """Proves the principal of a signed token, at its resource only."""

    def __init__(self, tokens: SignedTokens) -> None:
        self._tokens = tokens

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of a token; None for credentials of another scheme.

        Raises Unauthorized: as a guess for a token that this hub did not sign, and as RefusedAccessToken, which does
        not count as one, for a token that has ended or is for another resource.
        """
        token = credentials.token
        if token is None or not token.startswith(self._tokens.prefix):
            return None
        try:
            found = self._tokens.verify(token)
        except EndedToken:
            raise _refused(
                credentials, "the access token has ended, or its client was revoked: get a new one"
            ) from None
        if found is None:
            reason = "this hub did not issue the access token: get a new one"
            raise Unauthorized(reason, _challenge(credentials, reason))
        principal, resource = found
        if resource not in list_audiences(credentials.resource, credentials.url, credentials.prefix):
            raise _refused(credentials, "the access token is for another resource: get one for this resource")
        return principal


def _refused(credentials: Credentials, reason: str) -> RefusedAccessToken:
    return RefusedAccessToken(reason, _challenge(credentials, reason))


def _challenge(credentials: Credentials, reason: str) -> str:
    return make_challenge(credentials, error="invalid_token", reason=reason)
