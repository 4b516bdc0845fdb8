"""A configuration says how a server gets the credential of each caller; what it says wrongly is refused."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.caller_accounts.way import Reach, WaySettings
from patchbay.caller_accounts.ways import WAYS, read_way
from patchbay.errors import ConfigError
from patchbay.upstreams.configuration import mount_of

TOKEN = {"name": "token", "header": "X-Key"}
VARIABLE = {"name": "token", "variable": "API_KEY"}
EXCHANGED = {"issuer": "https://id.example", "client_id": "hub"}
ASSERTED = EXCHANGED | {"client_secret": "${A}", "identity_client_id": "hub", "identity_client_secret": "${B}"}


def read(reach: Reach, **fields: Any) -> WaySettings:
    found = read_way({"account": "caller"} | fields, reach, "far.json")
    assert found is not None
    return found


def test_a_server_without_accounts_of_callers_has_no_way() -> None:
    assert read_way({}, "url", "far.json") is None
    assert read_way({"account": "hub"}, "url", "far.json") is None


def test_callers_sign_in_unless_the_configuration_says_otherwise() -> None:
    assert read("url").name == "sign-in"
    fields: dict[str, dict[str, Any]] = {
        "key": {},
        "forward": {"forward": ["X-A"]},
        "exchange": {"oauth": EXCHANGED},
        "assertion": {"oauth": ASSERTED},
    }
    assert {name: read("url", way=name, **more).name for name, more in fields.items()} == {
        name: name for name in fields
    }


def test_a_key_is_a_bearer_token_unless_fields_are_named() -> None:
    (field,) = read("url", way="key").fields
    assert (field.place, field.target, field.format) == ("header", "Authorization", "Bearer {}")


@pytest.mark.parametrize(
    ("reach", "fields", "path", "words"),
    [
        ("url", {"account": "hub", "way": "key"}, "way", "only beside"),
        ("url", {"account": "hub", "fields": [TOKEN]}, "fields", "only beside"),
        ("url", {"account": "hub", "forward": ["X-A"]}, "forward", "only beside"),
        ("url", {"way": "magic"}, "way", "expected one of sign-in, key, forward"),
        ("url", {"fields": [TOKEN]}, "fields", 'only with "way": "key"'),
        ("url", {"way": "key", "forward": ["X-A"]}, "forward", 'only with "way": "forward"'),
        ("url", {"way": "key", "oauth": {"client_id": "me"}}, "oauth", 'only with "way"'),
        ("url", {"way": "exchange"}, "oauth.issuer", "expected a value"),
        ("url", {"way": "exchange", "oauth": {"issuer": "https://id"}}, "oauth.client_id", "expected a value"),
        (
            "url",
            {"way": "exchange", "oauth": EXCHANGED | {"client_secret": "s3cret"}},
            "oauth.client_secret",
            "variable",
        ),
        ("url", {"way": "exchange", "oauth": EXCHANGED | {"token_url": "https://x"}}, "oauth.token_url", "only issuer"),
        ("url", {"way": "exchange", "oauth": EXCHANGED, "headers": {"authorization": "x"}}, "headers", "each caller's"),
        ("program", {"way": "exchange", "oauth": EXCHANGED}, "way", 'expected "key" for a program'),
        ("url", {"way": "assertion", "oauth": EXCHANGED}, "oauth.client_secret", "expected a value"),
        ("url", {"way": "assertion", "oauth": ASSERTED | {"audience": "x"}}, "oauth.audience", "only issuer"),
        (
            "url",
            {"way": "assertion", "oauth": ASSERTED | {"identity_client_id": ""}},
            "oauth.identity_client_id",
            "value",
        ),
        ("program", {}, "account", '"way": "key"'),
        ("program", {"way": "key"}, "fields", "variable"),
        ("program", {"way": "key", "fields": [TOKEN]}, "fields.0.header", "expected variable"),
        ("program", {"way": "forward", "forward": ["X-A"]}, "way", 'expected "key" for a program'),
        ("url", {"way": "key", "fields": [VARIABLE]}, "fields.0.variable", "expected header or query"),
        ("url", {"way": "key", "fields": []}, "fields", "1 to 10"),
        ("url", {"way": "key", "fields": [{"name": "a"}]}, "fields.0", "one of header, query and variable"),
        ("url", {"way": "key", "fields": [TOKEN | {"query": "key"}]}, "fields.0", "one of header"),
        ("url", {"way": "key", "fields": [TOKEN, TOKEN | {"header": "X-B"}]}, "fields", "name of its own"),
        ("url", {"way": "key", "fields": [TOKEN, {"name": "b", "header": "x-key"}]}, "fields", "another header"),
        ("url", {"way": "key", "fields": [TOKEN], "headers": {"x-KEY": "1"}}, "fields", "no X-Key of the hub"),
        ("url", {"way": "key", "headers": {"authorization": "x"}}, "fields", "no Authorization of the hub"),
        ("url", {"way": "key", "fields": [TOKEN | {"format": "Bearer"}]}, "fields.0.format", "{} once"),
        ("url", {"way": "key", "fields": [TOKEN | {"format": "{}{}"}]}, "fields.0.format", "{} once"),
        ("url", {"way": "key", "fields": [TOKEN | {"format": "basic"}]}, "fields.0.format", "only for the header"),
        ("url", {"way": "key", "fields": [{"name": "a", "header": "Cookie"}]}, "fields.0.header", "sets Cookie itself"),
        ("url", {"way": "key", "fields": [{"name": "a", "header": "Mcp-Session-Id"}]}, "fields.0.header", "itself"),
        ("program", {"way": "key", "fields": [{"name": "a", "variable": "LD_PRELOAD"}]}, "fields.0.variable", "start"),
        ("program", {"way": "key", "fields": [{"name": "a", "variable": "PATH"}]}, "fields.0.variable", "start"),
        (
            "program",
            {"way": "key", "fields": [{"name": "a", "variable": "NODE_OPTIONS"}]},
            "fields.0.variable",
            "start",
        ),
        (
            "program",
            {"way": "key", "fields": [VARIABLE], "environment": {"API_KEY": "1"}},
            "fields",
            "no API_KEY of the hub",
        ),
        ("url", {"way": "forward"}, "forward", "X-Tenant"),
        ("url", {"way": "forward", "forward": ["authorization"]}, "forward.0", '"trust": "same-issuer"'),
        ("url", {"way": "forward", "forward": ["X-A", "Cookie"]}, "forward.1", "about one request"),
        ("url", {"way": "forward", "forward": ["Mcp-Session-Id"]}, "forward.0", "about one request"),
        ("url", {"way": "forward", "forward": ["Proxy-Authorization"]}, "forward.0", "about one request"),
        ("url", {"way": "forward", "forward": ["X-Forwarded-For"]}, "forward.0", "about one request"),
        ("url", {"way": "forward", "forward": ["X-A"], "headers": {"x-a": "1"}}, "forward.0", "not in both"),
        (
            "url",
            {"way": "forward", "trust": "same-issuer", "headers": {"Authorization": "${A}"}},
            "headers",
            "own token",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    reach: Reach, fields: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(reach, **fields)
    assert refused.value.path == path
    assert words in refused.value.message


def test_every_way_says_itself_to_people() -> None:
    assert all(row.sentence for row in WAYS.values())


def test_the_processes_of_callers_are_not_shared() -> None:
    fields = {
        "address": "mcp+stdio:echo",
        "account": "caller",
        "way": "key",
        "fields": [VARIABLE],
        "sessions": "shared",
    }
    with pytest.raises(ConfigError, match="its own process"):
        mount_of("far", fields, "far.json")


def test_the_address_has_nothing_that_the_credential_sets() -> None:
    own = {"address": "http://127.0.0.1:1/mcp?team=blue", "account": "caller", "way": "key"}
    assert mount_of("far", own, "far.json").way is not None
    with pytest.raises(ConfigError, match="no team in the address"):
        mount_of("far", own | {"fields": [{"name": "token", "query": "team"}]}, "far.json")


def test_the_key_of_stored_accounts_differs_by_name_address_and_way() -> None:
    base = {"account": "caller", "way": "key"}
    url = base | {"address": "http://127.0.0.1:1/mcp"}
    program = base | {"address": "mcp+stdio:echo", "fields": [VARIABLE]}
    every = [
        mount_of("far", url, "far.json"),
        mount_of("near", url, "far.json"),
        mount_of("far", url | {"address": "http://127.0.0.1:2/mcp"}, "far.json"),
        mount_of("far", {"address": "http://127.0.0.1:1/mcp", "account": "caller"}, "far.json"),
        mount_of("far", program, "far.json"),
        mount_of("far", program | {"address": "mcp+stdio:cat"}, "far.json"),
    ]
    assert len({mount.upstream({}).key for mount in every}) == len(every)
