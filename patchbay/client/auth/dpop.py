"""Proof of possession (DPoP, RFC 9449, SEP-1932): each request proves that it holds our key, so a stolen token is
useless.

`DpopAuth` wraps any other way of signing in and reads its requests and answers. When the authorization server supports
ES256 proofs, and the server accepts bound tokens (its challenge or its metadata say so), the request for a token
carries a proof. When the returned token is bound to our key, so does every request that uses it, under the scheme
`DPoP`. A nonce that the server asks for is sent once. The key is kept beside the tokens, because the tokens cannot be
used without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import httpx2
import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from patchbay.client.auth.token_files import TokenFile

ALGORITHM = "ES256"
DPOP_ALGORITHMS_FIELD = "dpop_signing_alg_values_supported"
RESOURCE_METADATA = "/oauth-protected-resource"
DPOP_CHALLENGE = re.compile(r"(?i)(^|,)\s*DPoP(\s|,|$)")
"""A challenge of a server that accepts bound tokens (RFC 9449, section 7.1)."""

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"


class DpopAuth(httpx2.Auth):
    """Wraps another way of signing in and adds proofs for servers that support them."""

    requires_response_body = True

    def __init__(self, inner: httpx2.Auth, token_file: TokenFile) -> None:
        self._inner = inner
        self._token_file = token_file
        pem, self._bound_token = token_file.get_proof()
        self._is_supported = self._is_accepted = bool(pem)
        self._key = _load_key(pem)
        jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        self._public_jwk = {name: jwk[name] for name in ("kty", "crv", "x", "y")}
        self._nonces: dict[str, str] = {}

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the inner flow; add a proof to each of its requests and read each answer."""
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                self._add_proof(outgoing)
                response = yield outgoing
                if await self._is_nonce_required(response):
                    self._add_proof(outgoing)
                    response = yield outgoing
                outgoing = await flow.asend(await self._inspect_response(outgoing, response))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _add_proof(self, request: httpx2.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if _is_token_request(request):
            if self._is_supported and self._is_accepted:
                request.headers["DPoP"] = self._make_proof(request, None)
        elif token and scheme in ("Bearer", "DPoP") and token == self._bound_token:
            request.headers["Authorization"] = f"DPoP {token}"
            request.headers["DPoP"] = self._make_proof(request, token)

    def _make_proof(self, request: httpx2.Request, token: str | None) -> str:
        claims: dict[str, Any] = {
            "jti": str(uuid4()),
            "htm": request.method,
            "htu": str(request.url.copy_with(query=None, fragment=None)),
            "iat": int(time.time()),
        }
        if token is not None:
            digest = hashlib.sha256(token.encode("ascii")).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        nonce = self._nonces.get(_get_origin(request))
        if nonce is not None:
            claims["nonce"] = nonce
        return jwt.encode(claims, self._key, ALGORITHM, {"typ": "dpop+jwt", "jwk": self._public_jwk})

    async def _is_nonce_required(self, response: httpx2.Response) -> bool:
        """Whether a request has to be sent again with the nonce that this answer brought."""
        nonce, origin = response.headers.get("DPoP-Nonce"), _get_origin(response.request)
        if nonce is None or "DPoP" not in response.request.headers:
            return False
        is_new = nonce != self._nonces.get(origin)
        self._nonces[origin] = nonce
        if not is_new or response.status_code not in (400, 401):
            return False
        error = response.headers.get("WWW-Authenticate", "") + (await response.aread()).decode("utf-8", "replace")
        return "use_dpop_nonce" in error

    async def _inspect_response(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Learn from an answer of an authorization server. The inner flow gets a bound token as a plain one."""
        if response.status_code == 401 and DPOP_CHALLENGE.search(response.headers.get("WWW-Authenticate", "")):
            self._is_accepted = True
        if response.status_code != 200 or not _is_json(response):
            return response
        if _is_token_request(request):
            found = await _read_object(response)
            if str(found.get("token_type", "")).lower() != "dpop":
                return response
            self._bound_token = str(found.get("access_token", ""))
            self._token_file.set_proof(_encode_key(self._key), self._bound_token)
            plain = orjson.dumps(found | {"token_type": "Bearer"})
            headers = {"Content-Type": "application/json"}
            return httpx2.Response(200, headers=headers, content=plain, request=request)
        if request.method == "GET" and "/.well-known/" in request.url.path:
            values = (await _read_object(response)).get(DPOP_ALGORITHMS_FIELD)
            if not isinstance(values, list) or ALGORITHM not in values:
                return response
            if RESOURCE_METADATA in request.url.path:
                self._is_accepted = True
            else:
                self._is_supported = True
        return response


def _load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    if not pem:
        return ec.generate_private_key(ec.SECP256R1())
    key = load_pem_private_key(pem.encode("ascii"), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _encode_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _is_token_request(request: httpx2.Request) -> bool:
    return request.method == "POST" and request.headers.get("Content-Type", "").startswith(FORM_MEDIA_TYPE)


def _get_origin(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"


def _is_json(response: httpx2.Response) -> bool:
    return bool(response.headers.get("Content-Type", "").startswith("application/json"))


async def _read_object(response: httpx2.Response) -> dict[str, Any]:
    try:
        found = orjson.loads(await response.aread())
    except ValueError:
        return {}  # the inner flow reads the same answer and raises the error
    return found if isinstance(found, dict) else {}
