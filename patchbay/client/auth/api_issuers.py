"""Find the authorization server of an HTTP API, from its configuration and its OpenAPI document.

An API, other than an MCP server, does not bind tokens to itself: its document could name the authorization server of
another service, and receive its tokens. So every address that only the document names has to be at an origin that the
operator named: that of the API (`base`) or of the configuration (`oauth`). The metadata of the authorization server are
preferred to the endpoints of the document, because they also say how a program makes itself known.

Sources: OpenAPI 3.1.1, OAuth Flows Object; OpenID Connect Discovery 1.0; RFC 8414; RFC 9700, section 4.4 (mix-up).
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthMetadata

from patchbay.client.addresses.targets import Http, mask_url
from patchbay.client.auth.token_clients import DescribedIssuer
from patchbay.client.connection.http import get_origin

OPENID_PATH = "/.well-known/openid-configuration"


async def find_api_issuer(
    client: httpx2.AsyncClient, target: Http, described: DescribedIssuer, has_client: bool
) -> OAuthMetadata:
    """Return the metadata of the authorization server of an API; those made from endpoints have S256.

    `has_client` says whether the configuration has a client id. Raises OAuthFlowError.
    """
    if described.authorization_url:
        return _make_metadata(described, described.authorization_url, described.token_url)
    if not described.issuer:
        _check_named(target, described)
    issuer = described.issuer or described.metadata_url.removesuffix(OPENID_PATH)
    issuer = issuer or _write_origin(described.document_token_url)
    found = await _fetch_metadata(client, issuer, described)
    if found is not None:
        return found
    endpoints = described.document_authorization_url, described.document_token_url
    if not all(endpoints):
        raise OAuthFlowError(f"the metadata of the authorization server {mask_url(issuer)} cannot be read")
    _check_named(target, described)
    if not has_client:
        raise OAuthFlowError(
            f"{mask_url(issuer)} publishes no metadata: register a client there, and write its client_id into the"
            " configuration, in the field oauth"
        )
    return _make_metadata(described, *endpoints)


async def _fetch_metadata(client: httpx2.AsyncClient, issuer: str, described: DescribedIssuer) -> OAuthMetadata | None:
    """Read the metadata of an authorization server; None where it publishes none. Raises OAuthFlowError."""
    urls = build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer)
    if described.metadata_url and not described.issuer:
        urls = [described.metadata_url]
    for url in urls:
        is_usable, found = await handle_auth_metadata_response(await client.send(create_oauth_metadata_request(url)))
        if not is_usable:
            return None
        if found is not None:
            _check_issuer_of(found, issuer, url)
            return found
    return None


def _check_issuer_of(found: OAuthMetadata, issuer: str, url: str) -> None:
    """Check that metadata are those of the issuer at whose address they were read. Raises OAuthFlowError."""
    if issuer == url:
        # The document names metadata at an address of its own (`oauth2MetadataUrl`): the origin has to be the same.
        if not _is_same_origin(str(found.issuer), url):
            raise OAuthFlowError(f"the metadata at {mask_url(url)} are those of another issuer, {found.issuer}")
    elif str(found.issuer).rstrip("/") != issuer.rstrip("/"):
        validate_metadata_issuer(found, issuer)


def _check_named(target: Http, described: DescribedIssuer) -> None:
    """Check that the operator named the origin of every address of the document. Raises OAuthFlowError."""
    urls = (described.metadata_url, described.document_authorization_url, described.document_token_url)
    given = [url for url in urls if url]
    if not given:
        raise OAuthFlowError(
            "the document has no security scheme with which a person signs in; name the authorization server in the"
            ' configuration: "oauth": {"issuer": "https://..."}'
        )
    for url in given:
        if not any(_is_same_origin(url, named) for named in (target.url, described.issuer) if named):
            raise OAuthFlowError(
                f"the document names an authorization server at {mask_url(_write_origin(url))}, which is not the origin"
                f' of the API; to allow it, name it in the configuration: "oauth": {{"issuer":'
                f' "{mask_url(_write_origin(url))}"}}'
            )


def _make_metadata(described: DescribedIssuer, authorization_url: str, token_url: str) -> OAuthMetadata:
    return OAuthMetadata.model_validate(
        {
            "issuer": described.issuer or _write_origin(authorization_url),
            "authorization_endpoint": authorization_url,
            "token_endpoint": token_url,
            "code_challenge_methods_supported": ["S256"],
        }
    )


def _is_same_origin(one: str, other: str) -> bool:
    return get_origin(httpx2.URL(one)) == get_origin(httpx2.URL(other))


def _write_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
