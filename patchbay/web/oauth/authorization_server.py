"""The authorization server of the hub with Authlib: authorization code with PKCE, refresh tokens, revocation.

`programs.py` has the grant for programs, `assertions.py` the one for identity assertions.

Authlib checks requests and makes answers; what a code or a token is, `patchbay/access/oauth/` knows. One server object
serves one request, because the issuer is the address that the client used.
Sources: OAuth 2.1 (draft-ietf-oauth-v2-1); RFC 7636; RFC 7009; RFC 8707; RFC 9207; RFC 9700.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from authlib.oauth2 import AuthorizationServer, OAuth2Error
from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9207.parameter import IssuerParameter
from flask import Response

from patchbay.access.oauth.clients import GRANT_TYPES, PRIVATE_KEY_JWT, Client
from patchbay.access.oauth.codes import AuthorizationCode
from patchbay.access.oauth.metadata_documents import CACHE_SECONDS
from patchbay.access.oauth.redirect_uris import BadRedirectUri, check_redirect_uri, is_registered
from patchbay.access.oauth.resources import BadResource, parse_resource
from patchbay.access.oauth.scopes import parse_scopes
from patchbay.access.oauth.tokens import InvalidGrant, IssuedTokens, TokenFamily
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Person
from patchbay.errors import InvalidParams
from patchbay.web.oauth.assertions import JWT_BEARER, IdentityAssertionGrant
from patchbay.web.oauth.programs import ProgramGrant, ProgramOfServer, SignedAssertion, unknown_program
from patchbay.web.oauth.requests import HubRequest, make_ascii

CLIENT_AUTH_METHODS = ["client_secret_basic", "client_secret_post", "none", PRIVATE_KEY_JWT]

KEYS_AGAIN_SECONDS = 20.0
"""Age of the published keys of a client from which they are fetched again for an assertion that none of them fits."""

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class InvalidTargetError(OAuth2Error):  # type: ignore[misc]
    """The resource is not an address of this hub, or not the one that was approved (RFC 8707, section 2)."""

    error = "invalid_target"


class ClientOfServer:
    """A client as Authlib asks about it. It has no personal key."""

    key = None

    def __init__(self, accounts: Accounts, client: Client) -> None:
        self._accounts = accounts
        self.client = client
        self.label = client.label

    def get_client_id(self) -> str:
        return self.client.id

    def get_default_redirect_uri(self) -> str | None:
        return self.client.redirect_uris[0] if len(self.client.redirect_uris) == 1 else None

    def get_allowed_scope(self, scope: str | None) -> str:
        return " ".join(parse_scopes(scope))

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        try:
            check_redirect_uri(redirect_uri)
        except BadRedirectUri as problem:
            # The text of an error of Authlib would have the URI, and may have no backslash and no tab.
            raise InvalidParams(f"redirect_uri: {problem}") from problem
        return is_registered(redirect_uri, self.client.redirect_uris)

    def check_client_secret(self, secret: str) -> bool:
        return self._accounts.clients.has_secret(self.client, secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        own = self.client.auth_method
        if PRIVATE_KEY_JWT in (own, method):
            return own == method
        return (method == "none") == (own == "none")

    def load_public_keys(self, has_failed: bool) -> str:
        """Return the JWK set of a client that signs, "" for another; fetch old ones again if they have failed.

        Raises BadDocument.
        """
        if self.client.auth_method != PRIVATE_KEY_JWT:
            return ""
        documents = self._accounts.documents
        max_age = KEYS_AGAIN_SECONDS if has_failed else CACHE_SECONDS
        return documents.load_keys(self.client, max_age)

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        if grant_type == JWT_BEARER:
            is_confidential = self.client.auth_method != "none"
            is_expired = self.client.is_expired(self._accounts.people.now())
            return self._accounts.assertions is not None and is_confidential and not is_expired
        return grant_type in GRANT_TYPES


class TokenOfServer:
    """The family of a token as Authlib asks about it."""

    def __init__(self, family: TokenFamily) -> None:
        self.family = family

    def check_client(self, client: ClientOfServer) -> bool:
        return self.family.client == client.client.id

    def get_scope(self) -> str:
        return " ".join(self.family.scopes)


class RequiredCodeChallenge(CodeChallenge):  # type: ignore[misc]
    """PKCE with S256, for every client."""

    DEFAULT_CODE_CHALLENGE_METHOD = "S256"
    SUPPORTED_CODE_CHALLENGE_METHOD = ("S256",)

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        values = grant.request.payload.data
        if not _CHALLENGE.fullmatch(values.get("code_challenge", "")):
            raise InvalidRequestError("The code_challenge is missing or no S256 challenge: PKCE is required")
        if values.get("code_challenge_method") != "S256":
            raise InvalidRequestError("The code_challenge_method has to be S256")


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    """The authorization code grant. `server` is a HubServer."""

    TOKEN_ENDPOINT_AUTH_METHODS = CLIENT_AUTH_METHODS

    def save_authorization_code(self, code: str, request: Any) -> None:
        """The code is already stored."""

    def generate_authorization_code(self) -> str:
        """Store what the person approved, and return the code for it."""
        accounts, client, values = self.server.accounts, self.request.client.client, self.request.payload.data
        accounts.clients.approve(client)
        code: str = accounts.codes.make(
            self.request.user,
            client,
            values.get("redirect_uri") or None,
            parse_scopes(self.request.scope),
            self.server.parse_resource(values.get("resource")),
            values["code_challenge"],
        )
        return code

    def query_authorization_code(self, code: str, client: ClientOfServer) -> AuthorizationCode | None:
        known: AuthorizationCode | None = self.server.accounts.codes.find(code)
        return known if known is not None and known.client.id == client.client.id else None

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.server.check_resource(self.request, self.request.authorization_code.resource)

    def authenticate_user(self, authorization_code: AuthorizationCode) -> str:
        return authorization_code.person

    def generate_token(self, **_: Any) -> dict[str, Any]:
        try:
            return _token_body(self.server.accounts.tokens.redeem(self.request.form["code"]))
        except InvalidGrant as problem:
            raise InvalidGrantError(make_ascii(problem)) from problem

    def save_token(self, token: dict[str, Any]) -> None:
        """Do nothing: the tokens are already stored."""

    def delete_authorization_code(self, authorization_code: AuthorizationCode) -> None:
        """A used code stays, so that its second use is noticed."""


class RotatingRefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    """The refresh token grant: each use gives a new refresh token."""

    TOKEN_ENDPOINT_AUTH_METHODS = CLIENT_AUTH_METHODS

    def authenticate_refresh_token(self, refresh_token: str) -> TokenOfServer | None:
        family = self.server.accounts.tokens.find_refresh_token(refresh_token)
        return None if family is None else TokenOfServer(family)

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.server.check_resource(self.request, self.request.refresh_token.family.resource)

    def authenticate_user(self, refresh_token: TokenOfServer) -> str:
        return refresh_token.family.person

    def issue_token(self, user: str, refresh_token: TokenOfServer) -> dict[str, Any]:
        scopes = tuple((self.request.payload.scope or "").split())
        try:
            return _token_body(self.server.accounts.tokens.refresh(self.request.form["refresh_token"], scopes))
        except InvalidGrant as problem:
            raise InvalidGrantError(make_ascii(problem)) from problem

    def save_token(self, token: dict[str, Any]) -> None:
        """Do nothing: the tokens are already stored."""

    def revoke_old_credential(self, refresh_token: TokenOfServer) -> None:
        """The new refresh token has replaced the old one."""


class Revocation(RevocationEndpoint):  # type: ignore[misc]
    """Revocation: a token ends with all tokens of its family."""

    CLIENT_AUTH_METHODS = CLIENT_AUTH_METHODS

    def query_token(self, token_string: str, token_type_hint: str | None) -> TokenOfServer | None:
        family = self.server.accounts.tokens.find(token_string)
        return None if family is None else TokenOfServer(family)

    def revoke_token(self, token: TokenOfServer, request: Any) -> None:
        self.server.accounts.tokens.end(token.family.person, token.family.id)


class _Issuer(IssuerParameter):  # type: ignore[misc]
    def __init__(self, server: HubServer) -> None:
        self._server = server
        super().__call__(server)

    def get_issuer(self) -> str:
        return self._server.issuer


class HubServer(AuthorizationServer):  # type: ignore[misc]
    """The server for one request. `issuer` is scheme, host and port that the client used.

    With `fetches`, it fetches the metadata document of an unknown client; use that for a signed-in person only. With
    `is_for_program`, the answer does not say whether the client of a request exists.
    """

    def __init__(self, accounts: Accounts, issuer: str, fetches: bool = False, is_for_program: bool = False) -> None:
        super().__init__()
        self.accounts = accounts
        self.issuer = issuer
        self._fetches = fetches
        self._is_for_program = is_for_program
        self.register_grant(CodeGrant, [RequiredCodeChallenge(required=True), self._check_target])
        self.register_grant(RotatingRefreshGrant)
        self.register_grant(ProgramGrant)
        if accounts.assertions is not None:
            self.register_grant(IdentityAssertionGrant)
        self.register_client_auth_method(PRIVATE_KEY_JWT, SignedAssertion(self))
        self.register_endpoint(Revocation)
        self.register_extension(_Issuer)

    def query_client(self, client_id: str) -> ClientOfServer | ProgramOfServer | None:
        """Return a client; None for an unknown one. Raises BadDocument when its document is not usable."""
        if self._fetches and client_id.startswith("https://"):
            client: Client | None = self.accounts.documents.load(client_id)
        else:
            client = self.accounts.clients.find(client_id)
        programs = self.accounts.programs
        if client is None and not self._fetches and (key := programs.find(client_id)) is not None:
            return ProgramOfServer(programs, key, () if self.accounts.assertions is None else (JWT_BEARER,))
        if client is None and self._is_for_program:
            return unknown_program(programs, client_id)
        if client is None or (self._fetches and client.is_expired(self.accounts.people.now())):
            return None
        return ClientOfServer(self.accounts, client)

    def create_oauth2_request(self, request: HubRequest) -> HubRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        """Make the response; a redirect after a form is a 303 (RFC 9700, section 4.12).

        An unknown client gets 401, also where it may get 400 (RFC 6749, section 5.2): some clients register again only
        after a 401.
        """
        content = orjson.dumps(body) if isinstance(body, dict) else body
        is_unknown = isinstance(body, dict) and body.get("error") == "invalid_client"
        response = Response(content, 303 if status == 302 else 401 if is_unknown else status, list(headers))
        response.headers["Cache-Control"] = "no-store"
        return response

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """The hub has no signals."""

    def parse_resource(self, text: str | None) -> str:
        """Return the resource of a request. Raises InvalidTargetError."""
        try:
            return parse_resource(text, self.issuer)
        except BadResource as problem:
            raise InvalidTargetError(make_ascii(problem)) from problem

    def check_resource(self, request: HubRequest, approved: str) -> None:
        """Check that a token request names no other resource than the approved one. Raises InvalidTargetError."""
        named = request.payload.data.get("resource")
        if named and self.parse_resource(named) != approved:
            raise InvalidTargetError("The resource is not the one that was approved")

    def _check_target(self, grant: CodeGrant) -> None:
        def check(grant: CodeGrant, redirect_uri: str) -> None:
            self.parse_resource(grant.request.payload.data.get("resource"))

        grant.register_hook("after_validate_authorization_request_payload", check)


def approve(server: HubServer, request: HubRequest, grant: Any, person: Person | None) -> Response:
    """Redirect to the client with a code for a person who approved, or with an error (None)."""
    response: Response = server.create_authorization_response(request, grant_user=person, grant=grant)
    return response


def _token_body(issued: IssuedTokens) -> dict[str, Any]:
    return {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": issued.seconds,
        "refresh_token": issued.refresh,
        "scope": " ".join(issued.scopes),
    }
