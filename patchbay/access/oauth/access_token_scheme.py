"""Authentication with an access token of the hub's own authorization server; implements `Scheme`.

A token is for one resource and covers what is below it: a token for the whole hub is valid everywhere, one for `/mcp`
for all servers, and one for a server for that server only.
Sources: RFC 6750, section 3.1; RFC 8707, section 2; RFC 9728, section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.credentials.names import name_sign_in
from patchbay.access.oauth.tokens import ACCESS_PREFIX, Tokens
from patchbay.access.principals import Principal
from patchbay.access.tokens.audiences import list_audiences
from patchbay.access.tokens.challenges import make_challenge


class RefusedAccessToken(Unauthorized):
    """An access token that has ended, or that is for another resource."""

    is_guess = False


class AccessTokenScheme:
    """Proves the person who approved the client, with the client as its agent. It has to be the last scheme.

    `remember` gets each person of an identity provider.
    """

    def __init__(self, tokens: Tokens, remember: Callable[[Principal], None] = lambda sender: None) -> None:
        self._tokens = tokens
        self._remember = remember

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of an access token; None without a token.

        Raises Unauthorized for a token that is unknown, expired or ended, or for another resource. The challenge says
        where the client signs in.
        """
        token = credentials.token
        if token is None:
            return None
        if not token.startswith(ACCESS_PREFIX):
            raise Unauthorized(
                "the token is unknown to this hub or was revoked: sign in again", _challenge(credentials)
            )
        found = self._tokens.verify(token)
        if found is None:
            raise _refused(credentials, "the access token is unknown, expired or ended: refresh it or sign in again")
        family = found.family
        if family.resource not in list_audiences(credentials.resource, credentials.url, credentials.prefix):
            raise _refused(credentials, "the access token is for another resource: sign in for this one")
        if found.principal.issuer:
            self._remember(found.principal)
        return replace(
            found.principal,
            agent=family.label,
            scopes=frozenset(found.token.scopes),
            credential=name_sign_in(family.account, family.id),
        )


def _refused(credentials: Credentials, reason: str) -> RefusedAccessToken:
    return RefusedAccessToken(reason, _challenge(credentials, reason))


def _challenge(credentials: Credentials, reason: str = "") -> str:
    return make_challenge(credentials, error="invalid_token", reason=reason)
