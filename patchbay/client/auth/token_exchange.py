"""Gets a token for a caller in place of another one, at authorization servers that a configuration names.

Token exchange gives an access token for another server, or an identity assertion (ID-JAG) that the authorization server
of that other server redeems. Secrets go to the token endpoint of the configured issuer only. An error has the code of
the answer, and nothing else of it: an answer may repeat a token.
Sources: RFC 8693, section 2; RFC 7523, section 2.1; RFC 8414, section 3;
draft-ietf-oauth-identity-assertion-authz-grant.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import mask_url
from patchbay.client.auth.client_secrets import prove_client
from patchbay.client.auth.obtained_tokens import ACCESS_TOKEN, ID_JAG, ObtainedToken, TokenRefused
from patchbay.client.errors import Unreachable
from patchbay.client.openapi.http_client import ApiClient, ApiFailure, get_origin
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import ParseError, PatchbayError
from patchbay.jsonrpc import parse

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

REQUEST_SECONDS = 10.0
"""Seconds that one answer of an authorization server may take, from the first byte to the last."""

MAX_ANSWER_BYTES = 512 * 1024
METADATA_SECONDS = 3600.0
"""Seconds for which the address of a token endpoint is kept."""

COOL_DOWN_SECONDS = 10.0
"""Seconds for which the failure to find a token endpoint is kept: other callers do not wait for the same failure."""

_NO_SERVER = "https://none.invalid"
"""Stands for the server at a private address that may be reached, where there is none (RFC 6761)."""

_CODE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz_-")


class _Endpoint(NamedTuple):
    """The URL of a token endpoint, and what the metadata says about how clients prove themselves there."""

    url: str
    methods: Any


class TokenServer:
    """The hub as a client of one authorization server. `is_public` allows public addresses only. Thread-safe."""

    def __init__(self, issuer: str, client_id: str, client_secret: str, is_public: bool = False) -> None:
        self.issuer = issuer
        self._client_id, self._client_secret = client_id, client_secret
        self._named = (_NO_SERVER if is_public else issuer,)
        self._endpoint: _Endpoint | None = None
        self._problem = ""
        """Why the endpoint was not found at the last attempt."""
        self._until = -math.inf
        self._lock = threading.Lock()

    def exchange(
        self, subject: str, audience: str, resource: str, scope: str, requested: str = ACCESS_TOKEN
    ) -> ObtainedToken:
        """Exchange an access token of a caller. Empty parameters are not sent. Raises TokenRefused, Unreachable."""
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": subject,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": requested,
            "audience": audience,
            "resource": resource,
            "scope": scope,
        }
        return self._request(form, requested)

    def redeem(self, assertion: str, resource: str, scope: str) -> ObtainedToken:
        """Get an access token for an identity assertion. Raises TokenRefused, Unreachable."""
        return self._request(
            {"grant_type": JWT_BEARER, "assertion": assertion, "resource": resource, "scope": scope}, ""
        )

    def _request(self, form: Mapping[str, str], issued_type: str) -> ObtainedToken:
        """Return the token of an answer, which has to be of this type; "" for an answer that names no type."""
        now = time.time()
        found = self._post({name: value for name, value in form.items() if value})
        token, seconds = found.get("access_token"), found.get("expires_in")
        if not isinstance(token, str) or not token:
            raise self._refuse("an answer without a token")
        if issued_type and found.get("issued_token_type") != issued_type:
            raise self._refuse("a token of another type than was requested")
        kind = found.get("token_type")
        if issued_type != ID_JAG and (not isinstance(kind, str) or kind.lower() != "bearer"):
            raise self._refuse("a token that is no Bearer token")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return ObtainedToken(token, math.inf)
        return ObtainedToken(token, now + seconds)

    def _post(self, form: Mapping[str, str]) -> dict[str, Any]:
        endpoint = self._find_endpoint()
        body, proof = prove_client(form, self._client_id, self._client_secret, endpoint.methods)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **proof}
        return self._send(HttpRequest("POST", endpoint.url, headers, body))

    def _find_endpoint(self) -> _Endpoint:
        """Return the token endpoint. Raises Unreachable, for COOL_DOWN_SECONDS after a failure without a request."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._endpoint, seconds = self._discover(), METADATA_SECONDS
                except Unreachable as problem:
                    self._endpoint, self._problem, seconds = None, problem.message, COOL_DOWN_SECONDS
                self._until = time.monotonic() + seconds
            if self._endpoint is None:
                raise Unreachable(self._problem)
            return self._endpoint

    def _discover(self) -> _Endpoint:
        problems = []
        for url in list_metadata_urls(self.issuer):
            try:
                found = self._send(HttpRequest("GET", url))
            except PatchbayError as problem:
                problems.append(problem.message)
                continue
            endpoint = found.get("token_endpoint")
            if found.get("issuer") != self.issuer:
                problems.append(f"{url} is the metadata of another issuer")
            elif not isinstance(endpoint, str) or not self._is_safe(endpoint):
                problems.append(f"{url} names no token endpoint at an https URL")
            else:
                return _Endpoint(endpoint, found.get("token_endpoint_auth_methods_supported"))
        raise Unreachable(f"{mask_url(self.issuer)} has no usable metadata: {'; '.join(problems)}")

    def _is_safe(self, url: str) -> bool:
        """Whether secrets may go to this URL: https, or the origin that the configuration names."""
        return urlsplit(url).scheme == "https" or get_origin(url) == get_origin(self.issuer)

    def _send(self, request: HttpRequest) -> dict[str, Any]:
        try:
            with ApiClient(
                self._named, {}, REQUEST_SECONDS, MAX_ANSWER_BYTES, REQUEST_SECONDS, "oauth.issuer"
            ) as client:
                found = parse(client.send(request).body)
        except ApiFailure as failure:
            if request.method == "POST":
                raise self._refuse(_read_code(failure)) from None
            raise
        except ParseError as problem:
            raise Unreachable(f"{mask_url(request.url)}: expected a JSON object") from problem
        if not isinstance(found, dict):
            raise Unreachable(f"{mask_url(request.url)}: expected a JSON object")
        return found

    def _refuse(self, reason: str) -> TokenRefused:
        return TokenRefused(f"{mask_url(self.issuer)} gives no token: {reason}")


def list_metadata_urls(issuer: str) -> list[str]:
    """Return the addresses where an issuer may publish its metadata, in the order in which MCP clients try them."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    urls = [origin + oauth + path, origin + openid + path, origin + path + openid]
    return list(dict.fromkeys(urls))


def _read_code(failure: ApiFailure) -> str:
    """Return the error code of a refused request for a token (RFC 6749, section 5.2), or its status."""
    data = failure.data if isinstance(failure.data, dict) else {}
    body = data.get("body")
    code = body.get("error") if isinstance(body, dict) else None
    is_code = isinstance(code, str) and 0 < len(code) <= 80 and _CODE_CHARACTERS.issuperset(code)
    return str(code) if is_code else f"HTTP {data.get('status', '')}"
