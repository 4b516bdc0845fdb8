"""Signing in to servers at URLs with OAuth 2.1, as the SDK does it.

A client proves its identity in one of four ways: a person signs in with a browser, which returns to a port of the
loopback interface (`BrowserSignIn`); the client has a secret or a key of its own (`ClientCredentials`); an identity
provider issues an assertion (`IdentityAssertion`); the platform that runs the program issues a token
(`WorkloadIdentity`). A server that requires a sign-in raises SignInNeeded when none is configured; the message names
the command to run.

Only `token_files.py` stores tokens. A code is accepted once, on 127.0.0.1, and only with the state that we sent. While
a person signs in, no request times out.

Sources: MCP specification 2025-11-25 and 2026-07-28, basic/authorization; RFC 8252, RFC 8707, RFC 9207; SEP-990,
SEP-1933.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from patchbay.client.addresses.targets import mask_url
from patchbay.client.auth.client_assertions import WorkloadAuth, make_token_exchanger
from patchbay.client.auth.dpop import DpopAuth
from patchbay.client.auth.methods import (
    BrowserSignIn,
    ClientCredentials,
    IdentityAssertion,
    ShowUrl,
    SignIn,
    SuppliedCredential,
    WorkloadIdentity,
)
from patchbay.client.auth.supplied_credential import SuppliedAuth
from patchbay.client.auth.token_files import MachineTokenFile, TokenFile
from patchbay.client.connection.requests import CURRENT_RUN
from patchbay.client.errors import SignInNeeded, Unreachable

__all__ = [
    "BrowserSignIn",
    "ClientCredentials",
    "IdentityAssertion",
    "ShowUrl",
    "SignIn",
    "SuppliedCredential",
    "WorkloadIdentity",
    "make_auth",
]

log = logging.getLogger(__name__)

FIRST_PORT, PORT_COUNT = 20000, 12000
"""Ports that a browser may return to: below the range from which Linux assigns ports itself."""

EC_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""Algorithms of signatures by the curve of the key."""

CALLBACK = "/callback"
MAX_LINE_BYTES = 16384
SIGN_IN_SECONDS = 300.0
"""Seconds that a person has to sign in."""


class _ScopedProvider(OAuthClientProvider):
    """Asks for the configured scopes, where they are configured, in place of those that the server names."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._configured_scope = self.context.client_metadata.scope

    async def _perform_authorization(self) -> httpx2.Request:
        if self._configured_scope:
            self.context.client_metadata.scope = self._configured_scope
        return await super()._perform_authorization()


class _SecretProvider(_ScopedProvider, ClientCredentialsOAuthProvider):
    """A client with a secret."""


class _PrivateKeyProvider(_ScopedProvider, PrivateKeyJWTOAuthProvider):
    """A client with a private key."""


def make_auth(url: str, sign_in: SignIn) -> httpx2.Auth:
    """Make the object that authenticates requests to a server, with proofs of possession where the server supports
    them.

    Used on the event loop only. Raises Unreachable for a private key that cannot sign.
    """
    if isinstance(sign_in, SuppliedCredential):
        return SuppliedAuth(url, sign_in.source)
    if isinstance(sign_in, BrowserSignIn):
        token_file = TokenFile(sign_in.folder, url, sign_in.account)
        return DpopAuth(_make_browser_auth(url, sign_in), token_file)
    token_file = MachineTokenFile(sign_in.folder, url, sign_in.account)
    return DpopAuth(_make_machine_auth(url, sign_in, token_file), token_file)


def _make_machine_auth(
    url: str, sign_in: ClientCredentials | IdentityAssertion | WorkloadIdentity, token_file: TokenFile
) -> httpx2.Auth:
    if isinstance(sign_in, ClientCredentials):
        return _make_client_credentials_auth(url, sign_in, token_file)
    if isinstance(sign_in, WorkloadIdentity):
        return WorkloadAuth(url, token_file, sign_in.client_id, sign_in.issuer, sign_in.read_token, sign_in.scope)
    return IdentityAssertionOAuthProvider(
        url,
        token_file,
        sign_in.client_id,
        sign_in.client_secret,
        sign_in.issuer,
        make_token_exchanger(sign_in.identity_token_url, sign_in.identity_client_id, sign_in.read_id_token),
        sign_in.scope,
        "client_secret_basic",
    )


def _make_client_credentials_auth(url: str, sign_in: ClientCredentials, token_file: TokenFile) -> httpx2.Auth:
    if sign_in.private_key is not None:
        signed = SignedJWTParameters(
            issuer=sign_in.client_id,
            subject=sign_in.client_id,
            signing_key=sign_in.private_key,
            signing_algorithm=_choose_algorithm(sign_in.private_key),
        )
        prove = signed.create_assertion_provider()
        return _PrivateKeyProvider(url, token_file, sign_in.client_id, prove, sign_in.scope, sign_in.issuer)
    if sign_in.client_secret is None:
        raise Unreachable(f"{mask_url(url)}: the client {sign_in.client_id!r} has neither a secret nor a private key")
    return _SecretProvider(
        url, token_file, sign_in.client_id, sign_in.client_secret, scope=sign_in.scope, issuer=sign_in.issuer
    )


def _choose_algorithm(private_key: str) -> str:
    """Choose the algorithm of signatures (RFC 7518, RFC 8037) for a private key. Raises Unreachable."""
    try:
        key = load_pem_private_key(private_key.encode("ascii"), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "EdDSA"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in EC_ALGORITHMS:
        return EC_ALGORITHMS[key.curve.name]
    raise Unreachable(
        "launch.client_key: expected a private key in PEM without a passphrase: RSA, P-256, P-384, P-521 or Ed25519"
    )


def _make_browser_auth(url: str, sign_in: BrowserSignIn) -> httpx2.Auth:
    callback = _BrowserCallback(url, sign_in)
    metadata = OAuthClientMetadata(
        client_name=sign_in.name,
        redirect_uris=[AnyUrl(callback.uri)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=sign_in.scope,
    )
    token_file = _RegisteredTokenFile(url, sign_in, callback.uri)
    parts = (url, metadata, token_file, callback.open_page, callback.wait_for_code)
    if sign_in.client_id is not None and sign_in.issuer is not None:
        return _RegisteredClientProvider(*parts, issuer=sign_in.issuer)
    return _ScopedProvider(*parts, sign_in.metadata_url)


class _RegisteredClientProvider(_ScopedProvider):
    """A browser sign-in whose client is registered at one authorization server, `issuer`, and at no other."""

    def __init__(self, *parts: Any, issuer: str) -> None:
        super().__init__(*parts)
        self._issuer = issuer

    def _expected_issuer(self) -> str:
        found = super()._expected_issuer()
        if not issuers_match(found, self._issuer):
            raise OAuthFlowError(
                f"the client_id is registered at {self._issuer}, and the server names another authorization server,"
                f" {found}"
            )
        return found

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return next((one for one in advertised if issuers_match(one, self._issuer)), advertised[0])

    async def _refresh_token(self) -> httpx2.Request:
        # Without metadata, the inherited method would send the credentials to the server itself.
        if self.context.oauth_metadata is None:
            raise OAuthFlowError(f"the metadata of {self._issuer} are not known")
        return await super()._refresh_token()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Find the token endpoint of the issuer before a refresh, then continue as the inherited flow."""
        async with self.context.lock:
            if not self._initialized:
                await self._initialize()
            is_refresh = not self.context.is_token_valid() and self.context.can_refresh_token()
            if is_refresh and self.context.oauth_metadata is None:
                for url in build_oauth_authorization_server_metadata_discovery_urls(self._issuer, self._issuer):
                    _, metadata = await handle_auth_metadata_response((yield create_oauth_metadata_request(url)))
                    if metadata is not None:
                        validate_metadata_issuer(metadata, self._issuer)
                        self.context.oauth_metadata = metadata
                        break
                else:
                    self.context.clear_tokens()
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class _RegisteredTokenFile(TokenFile):
    """The stored tokens, with the registration that was made beforehand if there is one."""

    def __init__(self, url: str, sign_in: BrowserSignIn, callback: str) -> None:
        super().__init__(sign_in.folder, url, sign_in.account)
        self._sign_in = sign_in
        self._redirect_uri = callback

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._sign_in.client_id is None:
            return await super().get_client_info()
        return OAuthClientInformationFull(
            client_id=self._sign_in.client_id,
            client_secret=self._sign_in.client_secret,
            redirect_uris=[AnyUrl(self._redirect_uri)],
            token_endpoint_auth_method="client_secret_basic" if self._sign_in.client_secret else "none",
            issuer=self._sign_in.issuer,
        )


class _BrowserCallback:
    """The address that a browser returns to: a port of the loopback interface that is open only during a sign-in.

    The port is computed from the server's URL, so that a registration made once stays valid.
    """

    def __init__(self, url: str, sign_in: BrowserSignIn) -> None:
        self._server_url = mask_url(url)
        self._sign_in = sign_in
        self._port = sign_in.port or FIRST_PORT + int(hashlib.sha256(url.encode()).hexdigest(), 16) % PORT_COUNT
        self.uri = f"http://127.0.0.1:{self._port}{CALLBACK}"
        self._listener: asyncio.Server | None = None
        self._code: asyncio.Future[AuthorizationCodeResult] | None = None
        self._state: str | None = None

    async def open_page(self, url: str) -> None:
        """Open the port, and show a person where to sign in.

        Only a web page is shown; another URL could open a program.
        """
        if urlsplit(url).scheme not in ("https", "http"):
            raise SignInNeeded(f"{self._server_url} names no web page to sign in at: {url[:200]!r}")
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]
        if self._sign_in.show_url is None:
            raise SignInNeeded(
                f"{self._server_url} requires a person to sign in, and this program may not ask: {self._sign_in.hint}"
            )
        self._code = asyncio.get_running_loop().create_future()
        try:
            self._listener = await asyncio.start_server(
                self._serve_request, "127.0.0.1", self._port, limit=MAX_LINE_BYTES
            )
        except OSError as problem:
            raise Unreachable(f"cannot wait for the browser on port {self._port}: {problem.strerror}") from problem
        try:
            with _pause_request_clock():
                await anyio.to_thread.run_sync(self._sign_in.show_url, url, abandon_on_cancel=True)
        except BaseException:
            self._listener.close()
            raise

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """Wait for the authorization code that the browser brings."""
        assert self._listener is not None and self._code is not None
        try:
            with _pause_request_clock(), anyio.fail_after(SIGN_IN_SECONDS):
                return await self._code
        except TimeoutError as problem:
            raise SignInNeeded(f"no person signed in to {self._server_url} within {SIGN_IN_SECONDS:g} s") from problem
        finally:
            self._listener.close()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await asyncio.wait_for(reader.readline(), 10)).decode("latin-1").split(" ")
            status, words = self._handle_redirect(line[1] if len(line) == 3 and line[0] == "GET" else "")
            page = f"<!doctype html><title>Patchbay</title><p>{html.escape(words)}".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + page)
            await writer.drain()
        except (OSError, ValueError, TimeoutError) as problem:
            log.debug("ignored an unusable request on port %s: %s", self._port, problem)
        finally:
            writer.close()

    def _handle_redirect(self, target: str) -> tuple[str, str]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        ours = parts.path == CALLBACK and query.get("state") == self._state  # any page may send its visitor here
        if not ours or not {"code", "error"} & set(query) or self._code is None or self._code.done():
            return "404 Not Found", "There is nothing here."
        if "code" not in query:
            why = query.get("error_description") or query["error"]
            self._code.set_exception(SignInNeeded(f"signing in to {self._server_url} was refused: {why[:500]}"))
            return "200 OK", f"Signing in was refused: {why[:500]}"
        self._code.set_result(
            AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
        )
        return "200 OK", "You are signed in. You may close this page."


def _pause_request_clock() -> AbstractContextManager[None]:
    run = CURRENT_RUN.get()
    return nullcontext() if run is None else run.clock.paused()
