"""resources/list, resources/templates/list and resources/read."""

from __future__ import annotations

from json import loads
from urllib.parse import urlsplit

import pytest

from tests.hubs import Hub


def read(hub: Hub, server: str, uri: str) -> dict[str, str]:
    (content,) = hub.legacy(server, "resources/read", {"uri": uri}).result["contents"]
    return dict(content)


def test_configured_resources_are_listed(zoo: Hub) -> None:
    """T6.1."""
    found = {each["uri"]: each for each in zoo.legacy("zoo", "resources/list").result["resources"]}
    assert set(found) == {"zoo://readme", "zoo://pixel", "zoo://note", "zoo://mcps"}
    assert found["zoo://readme"]["name"] == "Readme"
    assert "text" not in found["zoo://readme"]


def test_a_text_is_read(zoo: Hub) -> None:
    """T6.2, VWR-9."""
    assert read(zoo, "zoo", "zoo://readme") == {"uri": "zoo://readme", "mimeType": "text/plain", "text": "Welcome."}


def test_bytes_are_read_as_a_blob(zoo: Hub) -> None:
    """T6.3."""
    assert read(zoo, "zoo", "zoo://pixel")["blob"] == "iVBORw0KGgo="


def test_content_is_read_by_its_cid(zoo: Hub) -> None:
    """T6.4, VWR-27, VWR-36: an identity CID carries its content, any other is in the store."""
    cid = zoo.configured(b"content by address")
    assert read(zoo, "zoo", f"cid://{cid}")["text"] == "content by address"
    assert read(zoo, "zoo", "cid://bafkqaatine")["text"] == "hi"


@pytest.mark.parametrize(
    "uri",
    [
        "zoo://nothing",
        "variable://nothing",
        "server://nothing",
        "cid://bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
        "cid://nonsense",
        "file:///etc/passwd",
        "not a uri",
    ],
)
def test_a_missing_resource_is_an_error_with_its_uri(zoo: Hub, uri: str) -> None:
    """T6.5, X-4: -32002 up to 2025-11-25, -32602 in 2026-07-28."""
    old = zoo.legacy("zoo", "resources/read", {"uri": uri})
    new = zoo.modern("zoo", "resources/read", {"uri": uri})
    assert (old.error["code"], old.error["data"]) == (-32002, {"uri": uri})
    assert (new.status, new.error["code"], new.error["data"]) == (400, -32602, {"uri": uri})


@pytest.mark.parametrize("server", ["zoo", "echo", "jq", "mcp"])
def test_every_listed_uri_has_a_scheme_and_only_allowed_characters(zoo: Hub, server: str) -> None:
    """T6.6."""
    for each in zoo.legacy(server, "resources/list").result["resources"]:
        assert urlsplit(each["uri"]).scheme
        assert each["uri"].isascii() and " " not in each["uri"]


def test_a_function_makes_its_resource_when_it_is_read(zoo: Hub) -> None:
    """V-C10."""
    assert read(zoo, "zoo", "zoo://note")["text"] == "a note, made when read"


def test_a_template_reads_with_its_variables(zoo: Hub) -> None:
    (template,) = zoo.legacy("zoo", "resources/templates/list").result["resourceTemplates"]
    assert template["uriTemplate"] == "zoo://item/{id}"
    assert loads(read(zoo, "zoo", "zoo://item/a%20b")["text"]) == {"id": "a b"}


def test_variables_and_servers_are_read_by_their_uris(zoo: Hub) -> None:
    """VWR-27, VWR-36."""
    assert "config_cid" in read(zoo, "zoo", "variable://mcps")["text"]
    assert "config_cid" in read(zoo, "zoo", "zoo://mcps")["text"]
    assert "zoo" in read(zoo, "zoo", "server://")["text"]
    assert "20" in read(zoo, "zoo", "server://date/date")["text"]


def test_a_tool_without_a_read_only_hint_is_not_run_by_reading(zoo: Hub) -> None:
    answer = zoo.legacy("zoo", "resources/read", {"uri": "server://zoo/greet?name=x"})
    assert "error" in answer.last


def test_the_last_output_of_a_tool_is_a_resource(zoo: Hub) -> None:
    """VWR-17, V-C10."""
    zoo.call("echo", "echo", {"message": "remember me"})
    assert read(zoo, "echo", "echo://last")["text"].strip() == "remember me"


def test_cacheable_answers_have_a_lifetime(zoo: Hub) -> None:
    """SPEC-DIGEST 1.7: long only at a pinned address."""
    moving = zoo.modern("zoo", "resources/read", {"uri": "zoo://readme"}).result
    version = zoo.catalogue.find("zoo").version
    pinned = zoo.modern(f"zoo@{version}", "resources/read", {"uri": "zoo://readme"}).result
    assert (moving["ttlMs"], moving["cacheScope"]) == (0, "private")
    assert pinned["ttlMs"] > 1_000_000 and pinned["cacheScope"] == "public"
    cid = zoo.configured(b"for ever")
    for uri, stays in [
        (f"cid://{cid}", True),
        ("variable://mcps", False),
        ("server://", False),
        ("zoo://note", False),
        ("zoo://mcps", False),
    ]:
        result = zoo.modern(f"zoo@{version}", "resources/read", {"uri": uri}).result
        assert (result["cacheScope"] == "public") is stays, uri


def test_a_resource_above_the_limit_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """VWR-39, X-14."""
    hub = Hub(tmp_path, read_limit=100)
    try:
        cid = hub.configured(b"x" * 101)
        answer = hub.legacy("echo", "resources/read", {"uri": f"cid://{cid}"})
        assert answer.error["code"] == -32602
        assert "100" in answer.error["message"]
    finally:
        hub.close()
