"""Signing in at a server in two steps: begin, and redeem the code that the browser brings back, maybe in another
process.

`begin` asks the server where its authorization server is (`api_issuers.py` for an HTTP API), makes this program known
there (a client metadata document, else a registration), and makes the URL for the person. `redeem` exchanges the code;
`refresh` and `revoke` need only what was stored. The requests carry no headers of the server's configuration and no
other token; they follow no redirects and keep the rules for public addresses of `patchbay/client/connection/http.py`.
Sources: MCP specification 2025-11-25 and 2026-07-28, basic/authorization; RFC 7591, RFC 7636, RFC 8414, RFC 8707,
RFC 9207, RFC 9728.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import anyio
import httpx2
import orjson
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    handle_registration_response,
    should_use_client_metadata_url,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, ValidationError

from patchbay.client.addresses.targets import Http, mask_url, mask_urls
from patchbay.client.auth.api_issuers import find_api_issuer
from patchbay.client.auth.token_clients import DescribedIssuer, IssuedTokens, RequestedSignIn, TokenClient
from patchbay.client.connection.http import HttpConnection, get_origin
from patchbay.client.errors import SignInNeeded, Unreachable

STEP_SECONDS = 30.0
"""Seconds that one step may take, with all its requests."""

MAX_ANSWER_BYTES = 256 * 1024
MAX_REASON_CHARACTERS = 300
GRANT_TYPES = ["authorization_code", "refresh_token"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """How this program makes itself known at an authorization server.

    `redirect_uri` and `metadata_url` take the issuer and return the address that the browser returns to, and the URL of
    the client metadata document ("" for none). `client_id` (with `client_secret`) is a registration made beforehand;
    `known` returns one that this program has made earlier, and `remember` keeps a new one.
    """

    name: str
    redirect_uri: Callable[[str], str]
    metadata_url: Callable[[str], str]
    known: Callable[[str, str], TokenClient | None]
    remember: Callable[[str, TokenClient], None]
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """What discovery found: the authorization server, the identifier of the server ("" for an API without one), and the
    scopes to ask for.
    """

    metadata: OAuthMetadata
    resource: str
    scope: str


def begin(target: Http, identity: ClientIdentity, described: DescribedIssuer | None = None) -> RequestedSignIn:
    """Begin a sign-in at the server of `target`. `described` is the authorization server of an HTTP API.

    Raises Unreachable with the reason.
    """

    async def run(client: httpx2.AsyncClient) -> RequestedSignIn:
        if described is None:
            found = await _discover(client, target, identity)
        else:
            found = await _discover_for_api(client, target, identity, described)
        redirect_uri = identity.redirect_uri(str(found.metadata.issuer))
        known = await _find_client(client, target, identity, found, redirect_uri)
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        asked = {
            "response_type": "code",
            "client_id": known.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
        }
        asked |= {"resource": found.resource} if found.resource else {}
        if found.scope:
            asked["scope"] = found.scope
            if "offline_access" in found.scope.split():
                asked["prompt"] = "consent"  # OpenID Connect Core, section 11
        url = _add_to_query(str(found.metadata.authorization_endpoint), asked)
        return RequestedSignIn(
            url=url, state=state, verifier=pkce.code_verifier, redirect_uri=redirect_uri, client=known
        )

    return _run(target, run)


def check_issuer(client: TokenClient, iss: str | None) -> None:
    """Check the `iss` of an answer of the authorization server (RFC 9207, section 2.4). Raises Unreachable."""
    if iss is None and not client.answers_with_iss:
        return
    if iss != client.issuer:
        raise Unreachable(f"the answer does not come from the authorization server {mask_url(client.issuer)}")


def redeem(target: Http, begun: RequestedSignIn, code: str) -> IssuedTokens:
    """Exchange an authorization code for tokens. Raises SignInNeeded if it is refused, Unreachable."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": begun.redirect_uri,
        "code_verifier": begun.verifier,
    }
    return _run(target, lambda client: _request_tokens(client, begun.client, form))


def refresh(target: Http, known: TokenClient, tokens: IssuedTokens) -> IssuedTokens:
    """Exchange a refresh token for fresh tokens. Raises SignInNeeded if it is refused, Unreachable."""

    async def run(client: httpx2.AsyncClient) -> IssuedTokens:
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        fresh = await _request_tokens(client, known, form)
        # RFC 6749, section 6: an answer without these members leaves them unchanged.
        kept = {name: getattr(tokens, name) for name in ("refresh_token", "scope") if not getattr(fresh, name)}
        return replace(fresh, **kept)

    return _run(target, run)


def revoke(target: Http, known: TokenClient, tokens: IssuedTokens) -> None:
    """End tokens at the authorization server, if it can (RFC 7009). Raises Unreachable."""
    if not known.revocation_url:
        return
    token, hint = (
        (tokens.refresh_token, "refresh_token") if tokens.refresh_token else (tokens.access_token, "access_token")
    )

    async def run(client: httpx2.AsyncClient) -> None:
        form, headers = _authenticate_client(known, {"token": token, "token_type_hint": hint})
        await client.post(known.revocation_url, data=form, headers=headers)

    _run(target, run)


def _run(target: Http, step: Callable[[httpx2.AsyncClient], Awaitable[Result]]) -> Result:
    """Run one step on an event loop of its own, in this thread."""
    bare = replace(target, headers={})

    async def run() -> Result:
        connection = HttpConnection(bare, None, MAX_ANSWER_BYTES)
        with anyio.fail_after(STEP_SECONDS):
            async with connection.make_client(timeout=httpx2.Timeout(STEP_SECONDS)) as client:
                return await step(client)

    try:
        return anyio.run(run)
    except TimeoutError as problem:
        raise Unreachable(f"signing in at {bare.label} took longer than {STEP_SECONDS:g} seconds") from problem
    except (OAuthFlowError, httpx2.HTTPError, httpx2.InvalidURL, ValidationError, ValueError) as problem:
        why = mask_urls(str(problem))[:MAX_REASON_CHARACTERS] or type(problem).__name__
        raise Unreachable(f"signing in at {bare.label} failed: {why}") from problem


async def _discover(client: httpx2.AsyncClient, target: Http, identity: ClientIdentity) -> _Found:
    """Find the authorization server of a server (RFC 9728, then RFC 8414 or OpenID Connect Discovery)."""
    probe = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with client.stream("POST", target.url, json=probe, headers=accept) as refused:
        pass
    hint = extract_resource_metadata_from_www_auth(refused) if refused.status_code == 401 else None
    described = await _find_resource_metadata(client, hint, target.url)
    resource = resource_url_from_server_url(target.url)
    if described is not None:
        if not check_resource_allowed(requested_resource=resource, configured_resource=str(described.resource)):
            raise OAuthFlowError(f"its metadata describe another server, {described.resource}")
        resource = str(described.resource)
    issuer = str(described.authorization_servers[0]) if described is not None else None
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, target.url):
        is_usable, metadata = await handle_auth_metadata_response(await client.send(create_oauth_metadata_request(url)))
        if not is_usable:
            break
        if metadata is not None:
            _check_server(metadata, issuer, target, identity)
            challenged = extract_scope_from_www_auth(refused) if refused.status_code == 401 else None
            scope = get_client_metadata_scopes(challenged, described, metadata, GRANT_TYPES)
            return _Found(metadata, resource, identity.scope or scope or "")
    raise OAuthFlowError("no authorization server was found: the server names none, or its metadata cannot be read")


async def _discover_for_api(
    client: httpx2.AsyncClient, target: Http, identity: ClientIdentity, described: DescribedIssuer
) -> _Found:
    """Find the authorization server of an HTTP API, whose operator named it or its origin."""
    metadata = await find_api_issuer(client, target, described, bool(identity.client_id))
    _check_endpoints(metadata)
    wanted = described.scope or None
    scope = get_client_metadata_scopes(wanted, None, metadata if wanted else None, GRANT_TYPES)
    return _Found(metadata, described.resource, identity.scope or scope or "")


async def _find_resource_metadata(
    client: httpx2.AsyncClient, hint: str | None, url: str
) -> ProtectedResourceMetadata | None:
    for each in build_protected_resource_metadata_discovery_urls(hint, url):
        answer = await client.send(create_oauth_metadata_request(each))
        if answer.status_code == 429 or answer.status_code >= 500:
            raise OAuthFlowError(f"its metadata cannot be read: HTTP {answer.status_code}")
        if (found := await handle_protected_resource_response(answer)) is not None:
            return found
    return None


def _check_server(metadata: OAuthMetadata, issuer: str | None, target: Http, identity: ClientIdentity) -> None:
    """Check the metadata of an authorization server. Raises OAuthFlowError."""
    if issuer is not None:
        validate_metadata_issuer(metadata, issuer)
    elif get_origin(httpx2.URL(str(metadata.issuer))) != get_origin(httpx2.URL(target.url)):
        raise OAuthFlowError(f"the server names no authorization server, and {metadata.issuer} is at another origin")
    if identity.client_id and _bare(str(metadata.issuer)) != _bare(target.issuer):
        raise OAuthFlowError(
            "the client_id of the configuration is for another authorization server than the one that the server"
            f" names, {metadata.issuer}; name it in the address: launch.issuer={metadata.issuer}"
        )
    _check_endpoints(metadata)


def _check_endpoints(metadata: OAuthMetadata) -> None:
    """Check the endpoints of an authorization server. Raises OAuthFlowError."""
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise OAuthFlowError(
            f"{metadata.issuer} does not announce PKCE with S256, without which the hub does not sign in"
        )
    for page in (metadata.authorization_endpoint, metadata.token_endpoint):
        if urlsplit(str(page)).scheme not in ("https", "http"):
            raise OAuthFlowError(f"{metadata.issuer} names an endpoint that is not a web address")


async def _find_client(
    client: httpx2.AsyncClient, target: Http, identity: ClientIdentity, found: _Found, redirect_uri: str
) -> TokenClient:
    """Return this program's registration at an authorization server; make one if needed."""
    metadata, issuer = found.metadata, str(found.metadata.issuer)
    document = identity.metadata_url(issuer) or None
    common = TokenClient(
        issuer=issuer,
        token_url=str(metadata.token_endpoint),
        client_id="",
        resource=found.resource,
        revocation_url=str(metadata.revocation_endpoint or ""),
        answers_with_iss=bool(metadata.authorization_response_iss_parameter_supported),
    )
    if identity.client_id:
        method = "client_secret_basic" if identity.client_secret else "none"
        return replace(common, client_id=identity.client_id, client_secret=identity.client_secret, auth_method=method)
    if document is not None and should_use_client_metadata_url(metadata, document):
        return replace(common, client_id=document)
    known = identity.known(issuer, redirect_uri)
    if known is None:
        wanted = OAuthClientMetadata(
            client_name=identity.name,
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=GRANT_TYPES,
            response_types=["code"],
            scope=found.scope or None,
        )
        if metadata.registration_endpoint is None:
            raise OAuthFlowError(
                f"{issuer} accepts no registrations: register a client there with the redirect URI {redirect_uri}, and"
                " write its client_id into the configuration, in the field oauth"
            )
        request = create_client_registration_request(metadata, wanted, target.url)
        made = await handle_registration_response(await client.send(request))
        check_registration_usable(made)
        secret = made.client_secret or ""
        method = made.token_endpoint_auth_method or ("client_secret_basic" if secret else "none")
        known = replace(common, client_id=made.client_id, client_secret=secret, auth_method=method)
        identity.remember(redirect_uri, known)
    return replace(common, client_id=known.client_id, client_secret=known.client_secret, auth_method=known.auth_method)


async def _request_tokens(client: httpx2.AsyncClient, known: TokenClient, form: dict[str, str]) -> IssuedTokens:
    form |= {"resource": known.resource} if known.resource else {}
    form, headers = _authenticate_client(known, form)
    answer = await client.post(known.token_url, data=form, headers=headers)
    if answer.status_code not in (200, 201):
        raise _token_error(known, answer)
    found = OAuthToken.model_validate_json(answer.content)
    return IssuedTokens(
        access_token=found.access_token,
        refresh_token=found.refresh_token or "",
        expires=None if found.expires_in is None else time.time() + found.expires_in,
        scope=found.scope or "",
    )


def _token_error(known: TokenClient, answer: httpx2.Response) -> Exception:
    """Return the error of a refused token request, with its code only: an answer may repeat secrets."""
    try:
        body = orjson.loads(answer.content)
        code = body.get("error") if isinstance(body, dict) else None
    except orjson.JSONDecodeError:
        code = None
    if answer.status_code in (400, 401) and isinstance(code, str):
        return SignInNeeded(f"{mask_url(known.issuer)} refused the tokens: {code[:80]}")
    return OAuthFlowError(f"{mask_url(known.issuer)} answered a request for tokens with HTTP {answer.status_code}")


def _authenticate_client(known: TokenClient, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form and headers that prove the client at the token endpoint (RFC 6749, section 2.3.1)."""
    headers = {"Accept": "application/json"}
    if known.auth_method == "client_secret_basic" and known.client_secret:
        pair = f"{quote(known.client_id, safe='')}:{quote(known.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return form | {"client_id": known.client_id}, headers
    if known.auth_method == "client_secret_post":
        return form | {"client_id": known.client_id, "client_secret": known.client_secret}, headers
    return form | {"client_id": known.client_id}, headers


def _add_to_query(page: str, asked: dict[str, str]) -> str:
    """Return the URL of a page with these parameters. Raises OAuthFlowError if it has one of them already."""
    given = dict(parse_qsl(urlsplit(page).query, keep_blank_values=True))
    if doubled := ", ".join(sorted(given.keys() & asked.keys())):
        raise OAuthFlowError(f"the authorization endpoint {mask_url(page)} already has the parameters {doubled}")
    return f"{page}{'&' if given else '?'}{urlencode(asked)}"


def _bare(url: str) -> str:
    return url.rstrip("/")
