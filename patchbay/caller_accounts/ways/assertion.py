"""The way `assertion`: the identity provider vouches for the caller at the authorization server of the server.

The identity provider is the issuer of the caller's access token. It exchanges that token for an identity assertion
(ID-JAG), and the authorization server that the configuration names redeems the assertion for an access token.
Source: draft-ietf-oauth-identity-assertion-authz-grant; MCP extension Enterprise-Managed Authorization (SEP-990).
"""

from __future__ import annotations

from patchbay.caller_accounts.credentials import ASSERTION, Upstream
from patchbay.caller_accounts.obtained import ObtainedCredentials, check_client
from patchbay.caller_accounts.verified_tokens import VerifiedToken
from patchbay.caller_accounts.way import Fields, Reach, Way
from patchbay.client.addresses.targets import Http
from patchbay.client.auth.obtained_tokens import ID_JAG, ObtainedToken

FIELDS = (
    *("issuer", "client_id", "client_secret", "scope", "resource"),
    *("identity_client_id", "identity_client_secret"),
)
"""The fields of `oauth` of this way."""


class AssertedTokens(ObtainedCredentials):
    """The tokens that identity assertions of callers were redeemed for."""

    def obtain(self, upstream: Upstream, token: VerifiedToken) -> ObtainedToken:
        """Get an assertion, and redeem it. Raises TokenRefused, Unreachable."""
        terms = upstream.exchange
        provider = self.server_at(token.issuer, terms.identity_client_id, terms.identity_client_secret)
        is_public = isinstance(upstream.target, Http) and upstream.target.public
        server = self.server_at(terms.issuer, upstream.client_id, upstream.client_secret, is_public)
        assertion = provider.exchange(token.text, terms.issuer, upstream.resource, upstream.scope, ID_JAG)
        return server.redeem(assertion.text, upstream.resource, upstream.scope)


def _check(fields: Fields, reach: Reach, where: str) -> None:
    needed = ("issuer", "client_id", "client_secret", "identity_client_id")
    check_client(fields, reach, where, ASSERTION, FIELDS, needed)


WAY = Way(
    ASSERTION,
    "the identity provider of the hub vouches for each caller there",
    frozenset({"oauth"}),
    _check,
    AssertedTokens,
)
