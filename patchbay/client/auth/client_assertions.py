"""Signing in with a token that another service issued: requesting the token, and using it.

`make_token_exchanger` is the first leg of SEP-990 (RFC 8693): an identity token becomes an assertion for one server.
`WorkloadAuth` is SEP-1933: the platform's own token is the grant (RFC 7523); when the server refuses it, no other grant
is tried. The authorization server is configured, never learnt from the server that asks for the token.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import httpx2
import orjson
from mcp.client.auth import OAuthFlowError, OAuthTokenError, TokenStorage
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    handle_token_response_scopes,
    validate_metadata_issuer,
)
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthToken
from mcp.shared.auth_utils import resource_url_from_server_url

from patchbay.client.certificates import load_certificates

TOKEN_EXCHANGE_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"
ID_JAG_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id-jag"
REQUEST_SECONDS = 30.0


def make_token_exchanger(
    endpoint: str, client_id: str, read_id_token: Callable[[], str]
) -> Callable[[str, str], Awaitable[str]]:
    """Make a function that exchanges an identity token for an assertion for `(audience, resource)`, at an identity
    provider. `read_id_token` is called for each exchange, on the event loop.
    """

    async def assertion(audience: str, resource: str) -> str:
        form = {
            "grant_type": TOKEN_EXCHANGE_GRANT_TYPE,
            "requested_token_type": ID_JAG_TOKEN_TYPE,
            "subject_token": read_id_token(),
            "subject_token_type": ID_TOKEN_TYPE,
            "audience": audience,
            "resource": resource,
            "client_id": client_id,
        }
        async with httpx2.AsyncClient(timeout=REQUEST_SECONDS, verify=load_certificates()) as client:
            answer = await client.post(endpoint, data=form)
        if answer.status_code != 200:
            raise OAuthTokenError(f"{endpoint} refused the exchange of the identity token: HTTP {answer.status_code}")
        try:
            found = orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            found = None
        if (
            not isinstance(found, dict)
            or found.get("issued_token_type") != ID_JAG_TOKEN_TYPE
            or not isinstance(found.get("access_token"), str)
        ):
            raise OAuthTokenError(f"{endpoint} did not issue an assertion")
        return str(found["access_token"])

    return assertion


class WorkloadAuth(httpx2.Auth):
    """Adds an access token to requests, which it gets for the identity token of the platform."""

    requires_response_body = True

    def __init__(
        self,
        url: str,
        storage: TokenStorage,
        client_id: str,
        issuer: str,
        read_token: Callable[[], str],
        scope: str | None,
    ) -> None:
        self._resource = resource_url_from_server_url(url)
        self._storage = storage
        self._client_id = client_id
        self._issuer = issuer
        self._read_token = read_token
        self._scope = scope
        self._lock = anyio.Lock()
        self._tokens: OAuthToken | None = None
        self._expires_at: float | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request, and between its two tries the requests for a token (the contract of `httpx2.Auth`)."""
        async with self._lock:
            if self._tokens is None:
                self._set_tokens(await self._storage.get_tokens())
            self._sign(request)
            response = yield request
            if response.status_code != 401:
                return
            endpoint = None
            for url in build_oauth_authorization_server_metadata_discovery_urls(self._issuer, self._issuer):
                _, metadata = await handle_auth_metadata_response((yield create_oauth_metadata_request(url)))
                if metadata is not None:
                    validate_metadata_issuer(metadata, self._issuer)
                    endpoint = str(metadata.token_endpoint)
                    break
            if endpoint is None:
                raise OAuthFlowError(f"{self._issuer} has no authorization server metadata")
            answer = yield self._build_token_request(endpoint)
            if answer.status_code != 200:
                raise OAuthTokenError(f"the platform's token was refused with HTTP {answer.status_code}")
            tokens = await handle_token_response_scopes(answer)
            self._set_tokens(tokens)
            await self._storage.set_tokens(tokens)
            self._sign(request)
            yield request

    def _build_token_request(self, endpoint: str) -> httpx2.Request:
        form = {
            "grant_type": JWT_BEARER_GRANT_TYPE,
            "assertion": self._read_token(),
            "client_id": self._client_id,
            "resource": self._resource,
        }
        return httpx2.Request("POST", endpoint, data=form | ({"scope": self._scope} if self._scope else {}))

    def _set_tokens(self, tokens: OAuthToken | None) -> None:
        self._tokens = tokens
        ends = tokens.expires_in if tokens is not None else None
        self._expires_at = None if ends is None else time.monotonic() + ends

    def _sign(self, request: httpx2.Request) -> None:
        if self._tokens is None or not self._tokens.access_token:
            return
        if self._expires_at is None or time.monotonic() < self._expires_at:
            request.headers["Authorization"] = f"Bearer {self._tokens.access_token}"
