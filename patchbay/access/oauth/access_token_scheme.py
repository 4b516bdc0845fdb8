"""Authentication with an access token of the hub's own authorization server; implements `Scheme`.

A token is for one resource and covers what is below it: a token for the whole hub is valid everywhere, one for `/mcp`
for all servers, and one for a server for that server only.
Sources: RFC 6750, section 3.1; RFC 8707, section 2.
"""

from __future__ import annotations

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.oauth.tokens import ACCESS_PREFIX, Tokens
from patchbay.access.principals import Principal
from patchbay.access.tokens.audiences import list_audiences

_INVALID = 'Bearer error="invalid_token"'


class AccessTokenScheme:
    """Proves the person who approved the client, with the client as its agent."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of an access token; None for another kind of credentials.

        Raises Unauthorized for a token that is unknown, expired or ended, or for another resource.
        """
        token = credentials.token
        if token is None or not token.startswith(ACCESS_PREFIX):
            return None
        found = self._tokens.verify(token)
        if found is None:
            raise Unauthorized("the access token is unknown, expired or ended: refresh it or sign in again", _INVALID)
        family, access = found
        if family.resource not in list_audiences(credentials.resource, credentials.url):
            raise Unauthorized("the access token is for another resource: sign in for this one", _INVALID)
        return Principal(family.person, name=family.person, agent=family.label, scopes=frozenset(access.scopes))
