"""Clients: their metadata, ids that hold it, secrets, and the resources and scopes that they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.access.oauth import clients as module
from patchbay.access.oauth.clients import BadClientMetadata, Client, Clients
from patchbay.access.oauth.resources import BadResource, parse_resource
from patchbay.access.oauth.scopes import SCOPES, describe_scope, parse_scopes
from patchbay.errors import InvalidParams
from patchbay.store import Store

URI = "https://client.example/callback"
HUB = "https://hub.example"


@pytest.fixture
def clients(store: Store) -> Clients:
    return Clients(store.journal, b"k" * 32)


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_the_id_of_a_registered_client_holds_its_metadata(clients: Clients, method: str) -> None:
    client, secret = clients.register(
        {"redirect_uris": [URI], "client_name": "A client", "token_endpoint_auth_method": method, "jwks": {}}
    )
    assert clients.find(client.id) == client
    assert (client.name, client.redirect_uris, client.auth_method) == ("A client", (URI,), method)
    assert bool(secret) == (method != "none") == clients.has_secret(client, secret)
    assert not clients.has_secret(client, "") and not clients.has_secret(client, "x" * 64)


def test_registrations_store_nothing(clients: Clients, store: Store) -> None:
    before = store.journal.append("test", b"")
    ids = {clients.register({"redirect_uris": [URI]})[0].id for _ in range(1000)}
    assert len(ids) == 1000
    assert store.journal.append("test", b"") == before + 1


def test_an_id_that_was_changed_or_comes_from_another_hub_is_unknown(clients: Clients, store: Store) -> None:
    id = clients.register({"redirect_uris": [URI]})[0].id
    other = Clients(store.journal, b"x" * 32).register({"redirect_uris": [URI]})[0].id
    for wrong in (other, id[:-1], id + "x", id.replace("registered.", ""), "registered.", "", "x" * 9000):
        assert clients.find(wrong) is None, wrong


def test_a_registration_ends_for_new_sign_ins(clients: Clients) -> None:
    client, _ = clients.register({"redirect_uris": [URI]})
    at = client.issued + module.REGISTRATION_SECONDS
    assert not client.is_expired(at)
    assert client.is_expired(at + 1)


WRONG: list[dict[str, Any]] = [
    {},
    {"redirect_uris": []},
    {"redirect_uris": URI},
    {"redirect_uris": [URI] * 11},
    {"redirect_uris": ["http://client.example/"]},
    {"redirect_uris": [7]},
    {"redirect_uris": [URI], "token_endpoint_auth_method": "private_key_jwt"},
    {"redirect_uris": [URI], "token_endpoint_auth_method": None},
    {"redirect_uris": [URI], "grant_types": ["implicit"]},
    {"redirect_uris": [URI], "grant_types": "authorization_code"},
    {"redirect_uris": [URI], "response_types": ["token"]},
    {"redirect_uris": [URI], "client_name": 7},
]


@pytest.mark.parametrize("metadata", WRONG, ids=str)
def test_wrong_metadata_are_refused(clients: Clients, metadata: dict[str, Any]) -> None:
    with pytest.raises(BadClientMetadata) as problem:
        clients.register(metadata)
    assert problem.value.error == (
        "invalid_client_metadata" if metadata.get("redirect_uris") == [URI] else "invalid_redirect_uri"
    )


def test_a_name_has_no_characters_that_deceive(clients: Clients) -> None:
    name = "Good\u202egnp.exe\n\u200bClient" + "x" * 200
    client, _ = clients.register({"redirect_uris": [URI], "client_name": name})
    assert client.name.startswith("Good gnp.exe Client") and len(client.name) <= 100
    assert clients.register({"redirect_uris": [URI]})[0].name == "A client without a name"


def test_an_approved_document_is_found_without_fetching_it(clients: Clients) -> None:
    client = Client(id="https://client.example/c.json", name="C", redirect_uris=(URI,))
    assert clients.find(client.id) is None
    clients.approve(client)
    assert clients.find(client.id) == client
    assert (client.label, client.host) == (client.id, "client.example")


RESOURCES: list[tuple[str | None, str | None]] = [
    (None, HUB),
    ("", HUB),
    (HUB, HUB),
    (HUB + "/", HUB),
    (HUB + ":443", HUB),
    ("HTTPS://HUB.example/mcp", HUB + "/mcp"),
    (HUB + "/mcp", HUB + "/mcp"),
    (HUB + "/mcp/", HUB + "/mcp"),
    (HUB + "/mcp/echo", HUB + "/mcp/echo"),
    (HUB + "/mcp/echo@bafkrei", HUB + "/mcp/echo@bafkrei"),
    (HUB + "/mcp/echo/more", None),
    (HUB + "/mcp/../x", None),
    (HUB + "/mcp/%2e%2e", None),
    (HUB + "/login", None),
    (HUB + "/mcp?x=1", None),
    (HUB + "/mcp#x", None),
    (HUB + "?", None),
    ("http://hub.example/mcp", None),
    ("https://hub.example:444/mcp", None),
    ("https://other.example/mcp", None),
    ("https://hub.example.evil.example/mcp", None),
    ("https://hub.example@evil.example/mcp", None),
    ("https://user@hub.example/mcp", None),
    ("https://hub.example:x/mcp", None),
    ("https://[::1/mcp", None),
    ("mcp", None),
    (HUB + "/mcp/" + "x" * 500, None),
]


@pytest.mark.parametrize(("resource", "expected"), RESOURCES, ids=str)
def test_a_resource_is_an_mcp_endpoint_of_this_hub(resource: str | None, expected: str | None) -> None:
    """RFC 8707, section 2."""
    if expected is None:
        with pytest.raises(BadResource):
            parse_resource(resource, HUB)
    else:
        assert parse_resource(resource, HUB) == expected


def test_unknown_scopes_are_left_out() -> None:
    everything = tuple(SCOPES)
    assert [parse_scopes(text) for text in (None, "", "openid profile", "operate")] == [everything] * 4
    for text in ("call:" + "x" * 600, "call:", "read: openid"):
        with pytest.raises(InvalidParams, match="cannot be read"):
            parse_scopes(text)
    assert parse_scopes("see openid call:notes.* read:") == ("call:notes.*", "see")
    assert len(parse_scopes(" ".join(f"call:t{number}" for number in range(100)))) == 20
    assert describe_scope("call:notes.*") == "call tools, only of notes.*"
