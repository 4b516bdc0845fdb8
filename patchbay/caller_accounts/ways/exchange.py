"""The way `exchange`: an authorization server exchanges the caller's access token for one for the server (RFC 8693).

It is the issuer of the caller's token, and the configuration names it: a token goes to no other authorization server.
"""

from __future__ import annotations

from patchbay.caller_accounts.credentials import EXCHANGE, Upstream
from patchbay.caller_accounts.obtained import ObtainedCredentials, check_client
from patchbay.caller_accounts.verified_tokens import VerifiedToken
from patchbay.caller_accounts.way import Fields, Reach, Way
from patchbay.client.auth.obtained_tokens import ObtainedToken
from patchbay.errors import ToolFailed

FIELDS = ("issuer", "client_id", "client_secret", "scope", "resource", "audience")
"""The fields of `oauth` of this way."""


class ExchangedTokens(ObtainedCredentials):
    """The tokens for which those of callers were exchanged."""

    def obtain(self, upstream: Upstream, token: VerifiedToken) -> ObtainedToken:
        """Exchange a token. Raises TokenRefused, Unreachable, and ToolFailed for a token of another issuer."""
        terms = upstream.exchange
        if terms.issuer != token.issuer:
            raise ToolFailed(
                f"{upstream.server} was not called for you: expected an access token of {terms.issuer}, which exchanges"
                f" it; yours is of {token.issuer}"
            )
        server = self.server_at(terms.issuer, upstream.client_id, upstream.client_secret)
        resource = upstream.audience or ("" if terms.audience else upstream.resource)
        return server.exchange(token.text, terms.audience, resource, upstream.scope)


def _check(fields: Fields, reach: Reach, where: str) -> None:
    check_client(fields, reach, where, EXCHANGE, FIELDS, ("issuer", "client_id"))


WAY = Way(
    EXCHANGE,
    "each caller's access token is exchanged for one for the server",
    frozenset({"oauth"}),
    _check,
    ExchangedTokens,
)
