"""The document of a mounted API: where it is, how it is read again, and what changes of it do (issue 17.2)."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from patchbay.catalogue.operating.switching import request_restart
from patchbay.config import parse_config
from patchbay.errors import ConfigError
from patchbay.pins.approval import approve
from patchbay.pins.records import load_pins
from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, document, list_tools, mount, mounted, operation, parameter
from tests.kinds.openapi.recording_api import RecordingApi, Reply, recording_api
from tests.waiting import until

PATHS: Json = {"/orders": {"get": operation(parameter("limit"), summary="List orders")}, "/ping": {"get": operation()}}
SWAGGER: Json = {
    "swagger": "2.0",
    "info": {"title": "Old shop", "version": "1"},
    "basePath": "/v2",
    "paths": {"/orders": {"get": {"parameters": [{"in": "query", "name": "limit", "type": "integer"}]}}},
}


def change(api: RecordingApi, **fields: Any) -> None:
    """Give the document with another operation GET /orders."""
    fresh = deepcopy(api.document)
    fresh["paths"]["/orders"]["get"] |= fields
    api.document = fresh


def waits_for_approval(hub: Hub) -> set[tuple[str, str]]:
    found = load_pins(hub.catalogue.store, "shop").document
    return set(found.waiting) if found is not None else set()


@pytest.mark.parametrize("as_yaml", [False, True])
@pytest.mark.parametrize(("described", "path"), [(document(PATHS), "/orders"), (SWAGGER, "/v2/orders")])
def test_a_document_of_each_version_is_read_as_json_and_as_yaml(
    tmp_path: Path, described: Json, path: str, as_yaml: bool
) -> None:
    given: Any = yaml.safe_dump(described).encode() if as_yaml else described
    with recording_api(given) as api:
        hub = Hub(tmp_path, {"shop.json": mount(api)}).as_operator()
        until(lambda: hub.catalogue.find("shop").tools, "its tools")
        assert not hub.call("shop", "list_orders", {}).result["isError"]
        assert api.requests[-1].path == path
        hub.close()


@pytest.mark.parametrize("place", ["file", "cid"])
def test_a_document_is_a_file_beside_the_definition_or_content_of_the_hub(tmp_path: Path, place: str) -> None:
    described = document(PATHS, servers=[{"url": "${url}"}])
    with recording_api(None) as api:
        text = json.dumps(described).replace("${url}", api.url)
        hub = Hub(tmp_path).as_operator()
        (hub.servers / "shop.openapi.yaml").write_text(text, "utf-8")
        where = "shop.openapi.yaml" if place == "file" else hub.configured(text.encode())
        (hub.servers / "shop.json").write_text(json.dumps({"kind": "openapi", "document": where}), "utf-8")
        until(lambda: "shop" in {one.name for one in hub.catalogue.all()}, "the server")
        until(lambda: hub.catalogue.find("shop").tools, "its tools")
        assert not hub.call("shop", "list_orders", {"limit": "3"}).result["isError"]
        assert api.requests[-1].target == "/orders?limit=3"
        hub.close()


def test_parts_of_a_document_at_other_urls_of_its_origin_are_read(tmp_path: Path) -> None:
    paths = {"/a": {"get": operation({"$ref": "parts.json#/limit"}, {"$ref": "http://127.0.0.2:9/x.json#/far"})}}
    with recording_api(document(paths)) as api:
        size = {"type": "object", "properties": {"min": {"$ref": "#/number"}, "in": {"$ref": "#/size"}}}
        limit = {**parameter("limit"), "schema": {"$ref": "#/size"}}
        api.files["/parts.json"] = {"limit": limit, "size": size, "number": {"type": "integer"}}
        paths["/a"]["get"]["parameters"].pop()
        hub = Hub(tmp_path, {"shop.json": mount(api)}).as_operator()
        until(lambda: hub.catalogue.find("shop").tools, "its tools")
        schema = list_tools(hub)["get_a"]["inputSchema"]
        name = schema["properties"]["limit"]["$ref"].removeprefix("#/$defs/")
        assert set(schema["$defs"][name]["properties"]) == {"min", "in"}
        hub.close()


def test_a_document_of_several_files_is_served_and_a_change_in_each_of_them_is_noticed(tmp_path: Path) -> None:
    """Issue 33.4: an operation in a file of its own, which refers to parameters in another one."""
    hub = Hub(tmp_path)
    folder = hub.servers / "shop"
    folder.mkdir(parents=True)
    limit = parameter("limit")
    (folder / "limit.json").write_text(json.dumps(limit), "utf-8")
    (folder / "list.json").write_text(json.dumps(operation({"$ref": "limit.json"})), "utf-8")
    paths = {"/orders": {"get": {"$ref": "list.json"}, "post": {"$ref": "none.json"}}}
    described = document(paths, servers=[{"url": "http://127.0.0.1:9"}])
    (folder / "openapi.json").write_text(json.dumps(described), "utf-8")
    definition = {"kind": "openapi", "document": "shop/openapi.json", "refresh": 1, "changes": "follow"}
    (hub.servers / "shop.json").write_text(json.dumps(definition), "utf-8")
    until(lambda: "shop" in {one.name for one in hub.catalogue.all()}, "the server")
    until(lambda: hub.catalogue.find("shop").tools, "its tools")
    assert list(list_tools(hub)["list_orders"]["inputSchema"]["properties"]) == ["limit", "next"]
    hub.as_operator()
    page = hub.client.get("/servers/shop", headers={"Accept": "application/json"}).text
    assert "POST /orders" in page and "not served" in page and "none.json: expected a readable file" in page
    (folder / "limit.json").write_text(json.dumps({**limit, "name": "most"}), "utf-8")
    until(lambda: "most" in list_tools(hub)["list_orders"]["inputSchema"]["properties"], "the other parameter")
    hub.close()


@pytest.mark.parametrize("summary", ["List orders", "List all orders"])
def test_a_cursor_stays_valid_when_a_document_with_the_same_tools_is_read_again(tmp_path: Path, summary: str) -> None:
    """A cursor names the last tool of its page; it does not depend on the version of the server."""
    with recording_api(document(PATHS)) as api:
        hub = Hub(tmp_path, {"shop.json": mount(api, changes="follow")}, page_size=1).as_operator()
        until(lambda: len(hub.catalogue.find("shop").tools) == 2, "its tools")
        first, before = hub.modern("shop", "tools/list").result, hub.catalogue.find("shop")
        change(api, summary=summary)
        read = len(api.document_requests)
        assert before.standing is not None
        before.standing.check_soon()
        until(lambda: len(api.document_requests) > read, "the document is read again")
        until(lambda: hub.catalogue.find("shop").tools["list_orders"].wire["title"] == summary, "its tools")
        second = hub.modern("shop", "tools/list", {"cursor": first["nextCursor"]}).result
        assert [one["name"] for one in first["tools"] + second["tools"]] == list(before.tools)
        hub.close()


def test_a_changed_operation_is_not_served_before_approval(tmp_path: Path) -> None:
    """17.2: drift is handled as for every mount."""
    with mounted(tmp_path, PATHS, changes="hold", refresh=1) as (hub, api):
        assert set(list_tools(hub)) == {"list_orders", "get_ping"}
        change(api, summary="Send all orders to somebody")
        until(lambda: set(list_tools(hub)) == {"get_ping"}, "the operation to go")
        assert hub.call("shop", "list_orders", {}).result["isError"]
        assert api.requests == []
        assert waits_for_approval(hub) == {("tool", "list_orders")}
        approve(hub.catalogue.store, "shop", "test")
        until(lambda: set(list_tools(hub)) == {"list_orders", "get_ping"}, "the operation to come back")
        assert list_tools(hub)["list_orders"]["title"] == "Send all orders to somebody"


def test_an_operation_that_moves_to_another_path_is_a_change(tmp_path: Path) -> None:
    paths = {"/orders": {"get": operation(operationId="list")}}
    with mounted(tmp_path, paths, changes="hold", refresh=1) as (hub, api):
        api.document = document({"/payments": paths["/orders"]})
        until(lambda: not list_tools(hub), "the operation to go")


def test_a_new_selection_of_the_operator_needs_no_approval(tmp_path: Path) -> None:
    with mounted(tmp_path, PATHS, changes="hold", include={"paths": ["/ping"]}) as (hub, api):
        assert set(list_tools(hub)) == {"get_ping"}
        (hub.servers / "shop.json").write_text(mount(api, changes="hold"), "utf-8")
        until(lambda: set(list_tools(hub)) == {"list_orders", "get_ping"}, "the other operation")


def test_a_document_that_cannot_be_read_changes_nothing_and_the_page_gives_the_reason(tmp_path: Path) -> None:
    def health(hub: Hub) -> Json:
        found = hub.client.get("/servers/shop", headers={"Accept": "application/json"}).json
        assert found is not None
        return dict(found["server"]["upstream"])

    with mounted(tmp_path, PATHS, refresh=1) as (hub, api):
        assert health(hub)["sentence"] == "connected (OpenAPI 3.1.0)"
        good, api.document = api.document, {"no": "document"}
        until(lambda: health(hub)["state"] == "down", "the failure")
        assert 'expected "openapi": "3.x" or "swagger": "2.0"' in health(hub)["reason"]
        assert set(list_tools(hub)) == {"list_orders", "get_ping"}
        assert not hub.call("shop", "get_ping", {}).result["isError"]
        api.document = good
        until(lambda: health(hub)["state"] == "up", "the recovery")


def test_the_last_document_is_served_after_a_restart_without_the_api(tmp_path: Path) -> None:
    with recording_api(document(PATHS), lambda seen: Reply({})) as api:
        hub = Hub(tmp_path, {"shop.json": mount(api)}, store="sqlite").as_operator()
        until(lambda: hub.catalogue.find("shop").tools, "its tools")
        hub.close()
    again = Hub(tmp_path, store="sqlite").as_operator()
    assert set(list_tools(again)) == {"list_orders", "get_ping"}
    again.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "expected the URL, the file or the CID of an OpenAPI document"),
        ({"document": "https://x/openapi.json", "base": "ftp://x"}, "at base: expected https://HOST/PATH"),
        ({"document": "https://x/openapi.json", "headers": {"X-Api-Key": "abc"}}, "not a secret"),
        ({"document": "https://x/openapi.json", "credentials": {"key": "abc"}}, "credentials.key"),
        ({"document": "https://x/openapi.json", "include": {"methods": ["GETT"]}}, "include.methods.0"),
        (
            {"document": "https://x/openapi.json", "prompts": {}},
            "prompts: not allowed for a mounted HTTP API; allowed: ",
        ),
    ],
)
def test_a_wrong_configuration_says_what_was_expected(fields: Json, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        parse_config(json.dumps({"kind": "openapi", **fields}).encode(), "shop.json")


def test_the_page_of_the_server_shows_the_method_and_the_path_of_each_tool(tmp_path: Path) -> None:
    with mounted(tmp_path, PATHS) as (hub, _):
        page = hub.client.get("/mcp/meta/shop", headers={"Accept": "text/html"}, follow_redirects=True).text
        assert "<code>GET /orders</code>" in page


def test_a_restart_of_the_server_reads_the_document_at_once(tmp_path: Path) -> None:
    with mounted(tmp_path, PATHS, changes="follow", refresh=86400) as (hub, api):
        change(api, summary="List all orders")
        request_restart(hub.catalogue.store, "shop")
        until(lambda: list_tools(hub).get("list_orders", {}).get("title") == "List all orders", "the new document")
        assert not hub.call("shop", "get_ping", {}).result["isError"]


@pytest.mark.parametrize("place", ["missing.json", "api/v1.yaml", "old.yml?version=2"])
def test_another_document_is_not_taken_in_the_place_of_the_one_that_was_named(tmp_path: Path, place: str) -> None:
    with recording_api(document(PATHS)) as api:
        hub = Hub(
            tmp_path, {"shop.json": json.dumps({"kind": "openapi", "document": f"{api.url}/{place}"})}
        ).as_operator()
        until(lambda: hub.catalogue.find("shop").standing.health.state == "down", "the first attempt")
        reason = hub.catalogue.find("shop").standing.health.reason
        assert place.partition("?")[0] in reason and 'expected "openapi": "3.x"' in reason
        assert [seen.path for seen in api.requests] == [f"/{place.partition('?')[0]}"] * len(api.requests)
        assert not hub.catalogue.find("shop").tools
        hub.close()
