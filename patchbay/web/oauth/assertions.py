"""The grant `jwt-bearer`: a client gets an access token for the person of an identity assertion (ID-JAG).

`patchbay/access/oauth/` knows what an assertion and its token are. A client has to prove itself, by a secret or a
signature: an assertion that leaks is worth nothing without that.
Sources: RFC 7523, sections 2.1 and 3.1; draft-ietf-oauth-identity-assertion-authz-grant; MCP extension
Enterprise-Managed Authorization (SEP-990), section 5.
"""

from __future__ import annotations

from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError, InvalidScopeError, UnauthorizedClientError
from authlib.oauth2.rfc6749.grants import BaseGrant, TokenEndpointMixin

from patchbay.access.oauth.asserted_tokens import TooManyGroups, choose_scopes
from patchbay.access.oauth.clients import PRIVATE_KEY_JWT
from patchbay.access.oauth.identity_assertions import IdentityAssertion
from patchbay.access.oauth.programs import RefusedScope, SignedToken
from patchbay.access.oauth.resources import covers_resource
from patchbay.access.tokens.problems import IssuerUnavailable, WrongToken
from patchbay.web.oauth.programs import SECRET_METHODS, describe_token
from patchbay.web.oauth.requests import make_ascii

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
"""How the metadata say that assertions of the grant are identity assertions (section 7.2 of the draft)."""


class IssuerAway(OAuth2Error):  # type: ignore[misc]
    """The keys of the identity provider cannot be fetched now."""

    error = "temporarily_unavailable"
    status_code = 503


class IdentityAssertionGrant(BaseGrant, TokenEndpointMixin):  # type: ignore[misc]
    """The grant of identity assertions. `server` is a HubServer."""

    GRANT_TYPE = JWT_BEARER
    TOKEN_ENDPOINT_AUTH_METHODS = (*SECRET_METHODS, PRIVATE_KEY_JWT)

    def validate_token_request(self) -> None:
        """Check the client, and the assertion up to its single use."""
        client = self.authenticate_token_endpoint_client()
        if not client.check_grant_type(JWT_BEARER):
            raise UnauthorizedClientError("This client may not send identity assertions")
        self.request.client = client

    def create_token_response(self) -> tuple[int, dict[str, Any], Any]:
        """Use the assertion, and return the answer with the token."""
        assertion = self._check_assertion()
        issued = self._issue(assertion)
        if not self.server.accounts.programs.use_assertion(assertion.issuer, assertion.id):
            raise InvalidGrantError("The assertion was used before: get a new one from the identity provider")
        return 200, describe_token(issued), self.TOKEN_RESPONSE_HEADER

    def _check_assertion(self) -> IdentityAssertion:
        text = self.request.form.get("assertion")
        if not text:
            raise InvalidRequestError("The parameter assertion is missing")
        accounts, client = self.server.accounts, self.request.client.get_client_id()
        try:
            found: IdentityAssertion = accounts.assertions.check(
                text, self.server.issuer, client, accounts.people.now()
            )
        except WrongToken as problem:
            raise InvalidGrantError(make_ascii(problem)) from problem
        except IssuerUnavailable as problem:
            raise IssuerAway("The identity provider does not answer: try again later") from problem
        return found

    def _issue(self, assertion: IdentityAssertion) -> SignedToken:
        """Make the token. The resource and the scopes of the request may narrow those of the assertion."""
        client, server = self.request.client, self.server
        given = server.parse_resource(assertion.resource)
        named = self.request.payload.data.get("resource")
        resource = server.parse_resource(named) if named else given
        if not covers_resource(given, resource, server.issuer):
            raise InvalidGrantError(f"The assertion is for {given}, and not for the resource of the request")
        held = None if client.key is None else client.key.scopes
        try:
            scopes = choose_scopes(held, assertion.scopes, self.request.named_scope)
            issued: SignedToken = server.accounts.asserted.issue(
                assertion.principal, scopes, resource, client.label, client.key
            )
        except RefusedScope as problem:
            raise InvalidScopeError(make_ascii(problem)) from problem
        except TooManyGroups as problem:
            raise InvalidGrantError(str(problem)) from problem
        return issued
