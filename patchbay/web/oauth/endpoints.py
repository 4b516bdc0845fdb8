"""The routes of the authorization server: `/oauth/*` and its metadata below `/.well-known`.

Programs in a browser may use the endpoints that need no cookie, from the origins that the hub allows (CORS).
Sources: RFC 8414; OpenID Connect Discovery 1.0 (only its address); RFC 7591, section 3; RFC 6749, section 5.2.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from patchbay.access.oauth.clients import (
    AUTH_METHODS,
    GRANT_TYPES,
    PRIVATE_KEY_JWT,
    REGISTRATION_SECONDS,
    BadClientMetadata,
)
from patchbay.access.oauth.scopes import SCOPES
from patchbay.access.people.accounts import Accounts
from patchbay.access.sign_in_settings import METADATA_PATHS, has_authorization_server
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import parse
from patchbay.limits import AddressCounter
from patchbay.settings import Settings
from patchbay.web.oauth.assertions import ID_JAG_PROFILE, JWT_BEARER
from patchbay.web.oauth.authorization_server import HubServer
from patchbay.web.oauth.consent import Consent
from patchbay.web.oauth.programs import ALGORITHMS, CLIENT_CREDENTIALS
from patchbay.web.oauth.requests import read_token_form
from patchbay.web.people.browsers import Browsers, public_base_url
from patchbay.web.people.sign_in import check_sign_in
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.bodies import check_json, read_body
from patchbay.wire.requests.wsgi import request_of

MAX_REGISTRATION_BYTES = 16 * 1024

MAX_REGISTRATIONS, MAX_PROGRAM_REQUESTS, WINDOW_SECONDS = 60, 600, 60.0
"""Registrations, and token requests of programs, of one address in this number of seconds."""


class _Endpoints:
    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._registrations = AddressCounter(MAX_REGISTRATIONS, WINDOW_SECONDS)
        self._programs = AddressCounter(MAX_PROGRAM_REQUESTS, WINDOW_SECONDS)

    def metadata(self) -> Response:
        """GET /.well-known/oauth-authorization-server (RFC 8414)."""
        return json_answer(self._describe(public_base_url()))

    def _describe(self, base: str) -> dict[str, Any]:
        return describe_server(base, takes_assertions=self._accounts.assertions is not None)

    def openid(self) -> Response:
        """GET /.well-known/openid-configuration: the same, for clients that look only there. There are no ID tokens."""
        base = public_base_url()
        more = {
            "jwks_uri": f"{base}/oauth/jwks",
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [],
        }
        return json_answer(self._describe(base) | more)

    def keys(self) -> Response:
        """GET /oauth/jwks: no keys, because the tokens of the hub are opaque."""
        return json_answer({"keys": []})

    def register(self) -> Response:
        """POST /oauth/register with client metadata (RFC 7591)."""
        if not self._registrations.allows(request.remote_addr or ""):
            return _answer_too_many("too many registrations came from your address")
        check_json(request_of(request.environ))
        metadata = parse(read_body(request_of(request.environ), MAX_REGISTRATION_BYTES))
        if not isinstance(metadata, dict):
            raise BadClientMetadata("expected a JSON object")
        client, secret = self._accounts.clients.register(metadata)
        body: dict[str, Any] = {
            "client_id": client.id,
            "client_id_issued_at": client.issued,
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "token_endpoint_auth_method": client.auth_method,
            "grant_types": list(GRANT_TYPES),
            "response_types": ["code"],
            "scope": " ".join(SCOPES),
        }
        if secret:
            body |= {"client_secret": secret, "client_secret_expires_at": client.issued + REGISTRATION_SECONDS}
        return json_answer(body, 201)

    def token(self) -> Response:
        """POST /oauth/token: a code, a refresh token, a program's credentials or an assertion for new tokens."""
        form = read_token_form()
        is_program = form.payload.data.get("grant_type") in (CLIENT_CREDENTIALS, JWT_BEARER)
        if is_program and not self._programs.allows(request.remote_addr or ""):
            return _answer_too_many("too many requests of programs came from your address")
        server = HubServer(self._accounts, public_base_url(), is_for_program=is_program)
        response: Response = server.create_token_response(form)
        return response

    def revoke(self) -> Response:
        """POST /oauth/revoke: end a token and its family."""
        server = HubServer(self._accounts, public_base_url())
        response: Response = server.create_endpoint_response("revocation", read_token_form())
        return response


def describe_server(base: str, takes_assertions: bool = False) -> dict[str, Any]:
    """The metadata of the server whose issuer is `base`: scheme, host and port (RFC 8414, section 2).

    `takes_assertions` says that it knows issuers of identity assertions.
    """
    grants = [*GRANT_TYPES, CLIENT_CREDENTIALS, *([JWT_BEARER] if takes_assertions else ())]
    profiles = {"authorization_grant_profiles_supported": [ID_JAG_PROFILE]} if takes_assertions else {}
    return profiles | {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "registration_endpoint": f"{base}/oauth/register",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": [*AUTH_METHODS, PRIVATE_KEY_JWT],
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": [*AUTH_METHODS, PRIVATE_KEY_JWT],
        "revocation_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


def consent_blueprint(site: Site, accounts: Accounts, browsers: Browsers) -> Blueprint:
    """The routes of the page on which a person approves a client."""
    consent = Consent(site, accounts, browsers)
    pages = Blueprint("consent", __name__)
    pages.before_request(lambda: check_authorization_server(site.settings))
    pages.add_url_rule("/oauth/authorize", "authorize", consent.show)
    pages.add_url_rule("/oauth/authorize", "decide", consent.decide, methods=["POST"])
    return pages


def oauth_blueprint(site: Site, accounts: Accounts) -> Blueprint:
    """The routes of the authorization server for programs."""
    endpoints = _Endpoints(accounts)
    routes = Blueprint("oauth", __name__)
    routes.before_request(lambda: check_authorization_server(site.settings))
    routes.after_request(_add_cors)
    routes.register_error_handler(PatchbayError, _answer_error)
    routes.add_url_rule(METADATA_PATHS[0], "metadata", endpoints.metadata)
    routes.add_url_rule(METADATA_PATHS[1], "openid", endpoints.openid)
    routes.add_url_rule("/oauth/jwks", "keys", endpoints.keys)
    routes.add_url_rule("/oauth/register", "register", endpoints.register, methods=["POST"])
    routes.add_url_rule("/oauth/token", "token", endpoints.token, methods=["POST"])
    routes.add_url_rule("/oauth/revoke", "revoke", endpoints.revoke, methods=["POST"])
    return routes


def check_authorization_server(settings: Settings) -> None:
    """Raise NotFound (404) when an outside issuer replaces the hub's authorization server, or in another mode."""
    check_sign_in(settings)
    if not has_authorization_server(settings):
        raise NotFound("An authorization server outside this hub issues its tokens.")


def _answer_error(problem: PatchbayError) -> Response:
    """Answer with an OAuth error (RFC 6749, section 5.2)."""
    error = getattr(problem, "error", "invalid_request")
    return _failure(str(error), problem.message, problem.status)


def _answer_too_many(message: str) -> Response:
    answer = _failure("temporarily_unavailable", message, 429)
    answer.headers["Retry-After"] = f"{WINDOW_SECONDS:.0f}"
    return answer


def _failure(error: str, message: str, status: int) -> Response:
    return json_answer({"error": error, "error_description": message}, status)


def _add_cors(response: Response) -> Response:
    """Let pages of allowed origins read the answer. Other origins were refused before; cookies are not allowed."""
    origin = request.headers.get("Origin")
    if origin:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.vary.add("Origin")
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Headers"] = "content-type, authorization, mcp-protocol-version"
            response.headers["Access-Control-Allow-Methods"] = "GET, POST"
            response.headers["Access-Control-Max-Age"] = "600"
    return response
