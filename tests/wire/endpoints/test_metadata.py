"""The metadata of the hub as a protected resource: for each MCP address, with the URL that the client used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from werkzeug.test import Client, TestResponse

from patchbay.access.authentication import Credentials
from patchbay.access.tokens.challenges import make_challenge
from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.settings import Settings
from patchbay.wire.endpoints.metadata import ResourceMetadata
from patchbay.wire.endpoints.pages import Pages
from patchbay.wire.pipeline import Pipeline
from patchbay.wire.requests.authentication import Authentication
from patchbay.wire.requests.wsgi import WsgiApplication

WELL_KNOWN = "/.well-known/oauth-protected-resource"
SETTINGS = Settings(allowed_hosts=("hub.example.org", "localhost", "[::1]"), allowed_origins=("https://app.example",))
ISSUER = "https://id.example.org/realms/acme"


def others(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"another part of the hub"]


def find_server_metadata() -> dict[str, Any]:
    return {"issuer": ISSUER}


def get(
    path: str, headers: Mapping[str, str] | None = None, app: ResourceMetadata | None = None, method: str = "GET"
) -> TestResponse:
    """The answer to a request for `path`."""
    app = app or ResourceMetadata(lambda _: [ISSUER], ("see", "call"), find_server_metadata)
    open_to_all = Authentication(replace(SETTINGS, access="open"), [], lambda: False, lambda _: None)
    pipeline = Pipeline(SETTINGS, open_to_all, (), lambda _: None, Pages(others), app.find)
    return Client(WsgiApplication(pipeline, TrustedProxies(()), "")).open(
        path, method=method, headers={"Host": "hub.example.org"} | dict(headers or {})
    )


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("", "http://hub.example.org"),
        ("/", "http://hub.example.org"),
        ("/mcp", "http://hub.example.org/mcp"),
        ("/mcp/echo", "http://hub.example.org/mcp/echo"),
        ("/mcp/", "http://hub.example.org/mcp/"),
        ("/mcp/echo/", "http://hub.example.org/mcp/echo/"),
        ("/mcp/no-such-server", "http://hub.example.org/mcp/no-such-server"),
        ("/mcp/echo@bafkreigh2akiscaildc", "http://hub.example.org/mcp/echo@bafkreigh2akiscaildc"),
        ("/mcp/caf%C3%A9", "http://hub.example.org/mcp/caf%C3%A9"),
    ],
)
def test_each_mcp_address_has_its_own_document(path: str, resource: str) -> None:
    found = get(WELL_KNOWN + path)
    assert (found.status_code, found.mimetype) == (200, "application/json")
    document = orjson.loads(found.data)
    assert document["resource"] == resource
    assert document["authorization_servers"] == [ISSUER]
    assert document["scopes_supported"] == ["see", "call"]
    assert document["bearer_methods_supported"] == ["header"]
    assert "ES256" in document["dpop_signing_alg_values_supported"]
    assert "none" not in document["dpop_signing_alg_values_supported"]


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"X-Forwarded-Proto": "https"}, "https://hub.example.org"),
        ({"X-Forwarded-Proto": "https, http"}, "https://hub.example.org"),
        ({"X-Forwarded-Proto": "javascript"}, "http://hub.example.org"),
        ({"X-Forwarded-Proto": "https", "Host": "hub.example.org:443"}, "https://hub.example.org"),
        ({"Host": "HUB.example.org:8000"}, "http://hub.example.org:8000"),
        ({"Host": "[::1]:8000"}, "http://[::1]:8000"),
        ({"X-Forwarded-Host": "evil.example"}, "http://hub.example.org"),
        ({"Forwarded": "host=evil.example"}, "http://hub.example.org"),
    ],
    ids=str,
)
def test_the_resource_is_the_url_that_the_client_used(headers: dict[str, str], origin: str) -> None:
    assert orjson.loads(get(WELL_KNOWN + "/mcp/echo", headers).data)["resource"] == f"{origin}/mcp/echo"


@pytest.mark.parametrize(
    "path", ["/mcp/echo/more", "/mcp//", "/mcp/echo//", "//", "/mcpx", "/other", "x", "/mcp/a b", "/mcp/" + "a" * 600]
)
def test_other_addresses_have_no_document(path: str) -> None:
    assert get(WELL_KNOWN + path).status_code == 404


def test_a_host_or_an_origin_of_another_site_is_refused() -> None:
    assert get(WELL_KNOWN, {"Host": "evil.example"}).status_code == 421
    assert get(WELL_KNOWN, {"Origin": "https://evil.example"}).status_code == 403
    assert get(WELL_KNOWN, {"Origin": "https://app.example"}).headers["Access-Control-Allow-Origin"]


def test_only_reading_is_served_and_nothing_is_kept_by_caches() -> None:
    assert get(WELL_KNOWN, method="POST").status_code == 405
    assert get(WELL_KNOWN, method="OPTIONS").status_code == 204
    assert get(WELL_KNOWN).headers["Cache-Control"] == "no-store"


def test_clients_of_2025_03_26_find_the_metadata_of_the_issuer_at_the_hub() -> None:
    """SPEC-DIGEST 1.13: without resource metadata a client looks for the authorization server at the hub's own root."""
    assert orjson.loads(get("/.well-known/oauth-authorization-server").data) == {"issuer": ISSUER}

    def fail() -> dict[str, Any]:
        raise IssuerUnavailable

    down = ResourceMetadata(lambda _: [ISSUER], (), fail)
    assert get("/.well-known/oauth-authorization-server", app=down).status_code == 503


def test_a_hub_with_its_own_authorization_server_names_itself() -> None:
    own = ResourceMetadata(lambda origin: [origin], ())
    assert get("/.well-known/oauth-authorization-server", app=own).data == b"another part of the hub"
    document = orjson.loads(get(WELL_KNOWN + "/mcp", app=own).data)
    assert document["authorization_servers"] == ["http://hub.example.org"]
    assert "scopes_supported" not in document


def test_other_paths_are_passed_on() -> None:
    for path in ("/", "/mcp/echo", "/.well-known/security.txt", "/.well-known/oauth"):
        assert get(path).data == b"another part of the hub"


@pytest.mark.parametrize(
    ("resource", "url", "metadata"),
    [
        ("https://hub.example.org/mcp", "", "https://hub.example.org/.well-known/oauth-protected-resource/mcp"),
        ("https://hub.example.org/mcp/a", "", "https://hub.example.org/.well-known/oauth-protected-resource/mcp/a"),
        ("", "https://hub.example.org/search", "https://hub.example.org/.well-known/oauth-protected-resource"),
    ],
)
def test_a_challenge_names_the_metadata_of_its_resource(resource: str, url: str, metadata: str) -> None:
    credentials = Credentials("POST", url or resource, {}, resource=resource)
    assert make_challenge(credentials) == f'Bearer resource_metadata="{metadata}"'
    assert 'scope="see call"' in make_challenge(credentials, ("see", "call"))


def test_a_challenge_has_no_characters_that_end_a_quoted_text() -> None:
    credentials = Credentials("POST", "https://hub.example.org/mcp", {}, resource="https://hub.example.org/mcp")
    found = make_challenge(credentials, error="invalid_token", reason='a "quote", a \\ and a line\r\nbreak, é')
    assert "error_description=\"a 'quote', a ' and a line''break, '\"" in found
