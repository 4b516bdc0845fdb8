"""Client credentials at the authorization server: a program gets an access token with its secret or a signed assertion.

Authlib checks requests and assertions; what a program and its token are, `patchbay/access/oauth/programs.py` knows.
Sources: RFC 6749, section 4.4; RFC 7523, sections 2.2 and 3; OpenID Connect Core 1.0, section 9 (`private_key_jwt`).
"""

from __future__ import annotations

import warnings
from typing import Any

import orjson
from authlib.oauth2.rfc6749 import InvalidClientError, InvalidScopeError
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet

from patchbay.access.keys import Key
from patchbay.access.oauth.clients import PRIVATE_KEY_JWT
from patchbay.access.oauth.programs import MAX_ASSERTION_SECONDS, Programs, RefusedScope, SignedToken
from patchbay.errors import InvalidParams
from patchbay.web.oauth.requests import make_ascii

CLIENT_CREDENTIALS = "client_credentials"
SECRET_METHODS = ("client_secret_basic", "client_secret_post")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Algorithms of assertions: those of a public key only."""

MAX_ID_CHARACTERS = 512

UNKNOWN = "The client is unknown, or its proof is wrong"
"""The reason for each client without a proof: who asks does not learn which names exist."""


class ProgramOfServer:
    """A program as Authlib asks about a client. `more_grants` are grants besides `client_credentials`.

    `label` is the agent of the persons for whom it acts.
    """

    def __init__(self, programs: Programs, key: Key, more_grants: tuple[str, ...] = ()) -> None:
        self._programs = programs
        self._grants = (CLIENT_CREDENTIALS, *more_grants)
        self.key = key
        self.label = key.name

    def get_client_id(self) -> str:
        return self.key.name

    def load_public_keys(self, has_failed: bool) -> str:
        return self.key.public_keys

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""  # `Programs.issue` narrows it

    def check_client_secret(self, secret: str) -> bool:
        return self._programs.has_secret(self.key, secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return endpoint == "token" and (method == PRIVATE_KEY_JWT if self.key.public_keys else method in SECRET_METHODS)

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self._grants


def unknown_program(programs: Programs, client_id: str) -> ProgramOfServer:
    """Return a program without a proof, for a name that no program has: it is refused as one with a wrong secret."""
    return ProgramOfServer(programs, Key(client_id, "", 0.0))


class ProgramGrant(ClientCredentialsGrant):  # type: ignore[misc]
    """The client credentials grant. `server` is a HubServer."""

    TOKEN_ENDPOINT_AUTH_METHODS = (*SECRET_METHODS, PRIVATE_KEY_JWT)

    def generate_token(self, **_: Any) -> dict[str, Any]:
        program, asked = self.request.client, self.request.payload
        resource = self.server.parse_resource(asked.data.get("resource"))
        try:
            issued = self.server.accounts.programs.issue(program.key, resource, self.request.named_scope)
        except RefusedScope as problem:
            raise InvalidScopeError(str(problem)) from problem
        return describe_token(issued)

    def save_token(self, token: dict[str, Any]) -> None:
        """Do nothing: the token is not stored."""


def describe_token(issued: SignedToken) -> dict[str, Any]:
    """Return the answer of the token endpoint with a signed token (RFC 6749, section 5.1)."""
    body: dict[str, Any] = {"access_token": issued.text, "token_type": "Bearer", "expires_in": issued.seconds}
    return body if issued.scopes is None else body | {"scope": " ".join(sorted(issued.scopes))}


class SignedAssertion(JWTBearerClientAssertion):  # type: ignore[misc]
    """Client authentication with a signed assertion (`private_key_jwt`), for one request. `server` is a HubServer."""

    CLIENT_AUTH_METHOD = PRIVATE_KEY_JWT

    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server
        self._client: Any = None
        self._keys = ""

    def get_audiences(self) -> list[str]:
        return [self._server.issuer, f"{self._server.issuer}/oauth/token"]

    def resolve_client_public_key(self, client: Any) -> KeySet:
        self._client, self._keys = client, self._load_keys(client, has_failed=False)
        return KeySet.import_key_set(orjson.loads(self._keys))

    def process_assertion_claims(self, assertion: str, resolve_key: KeySet) -> dict[str, Any]:
        """Check an assertion with each key of its client, whatever `kid` it names: PEM has none. Return its claims.

        The client may have changed the keys that it publishes, so that they are looked up again when none fits.
        """
        claims = self._check(assertion, resolve_key)
        if claims is None and (newer := self._load_keys(self._client, has_failed=True)) != self._keys:
            claims = self._check(assertion, KeySet.import_key_set(orjson.loads(newer)))
        if claims is None:
            raise InvalidClientError(description=UNKNOWN)
        return claims

    def _load_keys(self, client: Any, has_failed: bool) -> str:
        """Return the JWK set of a client. Raises InvalidClientError for one that does not sign."""
        try:
            keys: str = client.load_public_keys(has_failed)
        except InvalidParams as problem:
            raise InvalidClientError(description=make_ascii(problem)) from problem
        if not keys:
            raise InvalidClientError(description=UNKNOWN)
        return keys

    def _check(self, assertion: str, keys: KeySet) -> dict[str, Any] | None:
        """Return the claims of an assertion that one of these keys signed, None if none did."""
        for key in keys.keys:
            try:
                with warnings.catch_warnings():  # the library warns of the older name of Ed25519, which most others use
                    warnings.simplefilter("ignore", SecurityWarning)
                    token = jwt.decode(assertion, key, algorithms=list(ALGORITHMS))
            except (JoseError, ValueError, TypeError):  # of another key, or no assertion
                continue
            self.verify_claims(token.claims)
            claims: dict[str, Any] = token.claims
            return claims
        return None

    def verify_claims(self, claims: jwt.Claims) -> None:
        end, now = claims.get("exp"), self._server.accounts.people.now()
        if isinstance(end, (int, float)) and end > now + MAX_ASSERTION_SECONDS:
            raise InvalidClientError(description=f"exp is more than {MAX_ASSERTION_SECONDS} seconds ahead")
        super().verify_claims(claims)

    def validate_jti(self, claims: jwt.Claims, jti: Any) -> bool:
        if not isinstance(jti, str) or not 0 < len(jti) <= MAX_ID_CHARACTERS:
            raise InvalidClientError(description=f"jti: expected a text of at most {MAX_ID_CHARACTERS} characters")
        used: bool = self._server.accounts.programs.use_assertion(claims["sub"], jti)
        return used
