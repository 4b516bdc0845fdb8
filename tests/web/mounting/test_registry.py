"""`/registry`: a search, what a server would run, its mount, and the update of a mounted package."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from patchbay.pins.records import load_pins
from tests.cli.registries import VERSIONS, package, registries, server
from tests.hubs import Hub
from tests.waiting import until

BROWSER = {"Accept": "text/html"}
WEATHER = "com.example/weather"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with registries() as found:
        yield found


@pytest.fixture
def hub(tmp_path: Path, url: str) -> Iterator[Hub]:
    one = Hub(tmp_path, registry=url, pypi=url, npm=url).log_in()
    yield one
    one.close()


def show(hub: Hub, **query: str) -> str:
    page = hub.client.get("/registry", query_string=query, headers=BROWSER)
    assert page.status_code == 200, page.text
    return str(page.text)


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of the only form that changes something."""
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)}


def post(hub: Hub, path: str, form: dict[str, str]) -> Any:
    return hub.client.post(path, data=form, headers=BROWSER)


def mounted(hub: Hub, name: str) -> Any:
    return json.loads((hub.servers / f"{name}.json").read_text("utf-8"))


def test_a_search_shows_the_servers_and_the_ways_that_the_hub_has(hub: Hub) -> None:
    """37.4"""
    page = show(hub, q="example")
    assert WEATHER in page and "com.example/boxed" in page
    assert 'href="/registry?name=com.example%2Fweather"' in page
    assert 'href="/registry?name=com.example%2Fboxed"' not in page  # a container is no way of the hub
    found = hub.client.get("/registry.json", query_string={"q": "weather"}).get_json()
    assert [one["name"] for one in found["servers"]] == [WEATHER, "com.other/weather"]


def test_what_will_run_is_shown_and_then_mounted_with_an_exact_version(hub: Hub) -> None:
    """37.4"""
    page = show(hub, name="io.github.modelcontextprotocol/time")
    version = VERSIONS["pypi", "mcp-server-time"]
    assert f"runs mcp-server-time {version} of PyPI on this machine with --local-timezone UTC" in page
    assert not list(hub.servers.glob("*.json"))
    done = post(hub, "/registry", hidden(page) | {"as": "clock"})
    assert done.status_code == 303 and done.headers["Location"] == "/servers/clock", done.text
    address = f"mcp+uvx://mcp-server-time@{version}?launch.arg=--local-timezone&launch.arg=UTC"
    assert mounted(hub, "clock") == {"kind": "upstream", "address": address}


def boxes(page: str) -> dict[str, str]:
    """The lines that a form shows, and those of them that are ticked."""
    found = re.findall(r'name="(shown-\d+)" value="([^"]*)"', page)
    found += re.findall(r'name="(allow-\d+)" value="([^"]*)" checked', page)
    return {name: unescape(value) for name, value in found}


def test_the_page_offers_what_typed_values_name_before_it_mounts(tmp_path: Path) -> None:
    """49"""
    kept, theirs = tmp_path / "kept", tmp_path / "theirs"
    kept.mkdir()
    theirs.mkdir()
    wanted = [
        {"name": "DATA_DIR", "isRequired": True},
        {"name": "CACHE_DIR", "default": str(theirs), "isRequired": True},
    ]
    one = package("npm", "@playwright/mcp", "1.0.0", environmentVariables=wanted)
    with registries(server("com.example/keeper", "Keeps", "1.0.0", packages=[one])) as url:
        hub = Hub(tmp_path / "hub", registry=url, pypi=url, npm=url).log_in()
        try:
            page = show(hub, name="com.example/keeper")
            assert "It may start a browser" in page
            form = hidden(page) | boxes(page) | {"as": "keeper", "replace": "on"}
            form |= {"value.DATA_DIR": str(kept), "value.CACHE_DIR": str(theirs)}
            again = post(hub, "/registry", form)
            assert again.status_code == 422 and "choose what the program may do" in again.text
            assert f"It may change {kept}" in unescape(again.text) and f'value="{kept}"' in again.text
            assert 'name="replace" checked' in again.text and not list(hub.servers.glob("*.json"))
            done = post(hub, "/registry", form | boxes(again.text))
            assert done.status_code == 303, done.text
            fields = mounted(hub, "keeper")
            assert (fields["writes"], fields["needs"]) == ([str(kept)], "browser"), (
                "what only the registry names is closed"
            )
            unticked = {name: text for name, text in boxes(again.text).items() if name.startswith("shown-")}
            bare = {name: text for name, text in form.items() if not name.startswith("allow-")}
            assert post(hub, "/registry", bare | unticked).status_code == 303
            assert not {"writes", "needs"} & set(mounted(hub, "keeper"))
            said = hub.client.post("/registry", data=form, headers={"Accept": "application/json"})
            assert said.status_code == 400 and f'allow-1={{"writes":["{kept}"]}}' in json.loads(said.text)["error"]
        finally:
            hub.close()


def test_the_page_says_that_calls_name_the_files_of_a_program(hub: Hub) -> None:
    """49"""
    assert "Calls of mcp-server-git may name files of yours" in show(hub, name="pypi:mcp-server-git")
    assert "may name files" not in show(hub, name="pypi:mcp-server-time")


def test_a_secret_stays_a_reference_and_a_missing_value_is_asked_for(hub: Hub) -> None:
    """37.4"""
    form = hidden(page := show(hub, name=WEATHER)) | {"as": "weather"}
    assert "required, secret" in page and "${AUTHORIZATION}" in page
    assert '<a href="/secrets">store its value</a>' in page
    written = form | {"value.Authorization": "Bearer confidential", "value.X-Region": "eu"}
    refused = post(hub, "/registry", written)
    assert refused.status_code == 422 and "this is a secret" in refused.text and "confidential" not in refused.text
    assert 'value="eu"' in refused.text  # what was typed is kept
    assert "X-Region" in post(hub, "/registry", form).text
    assert not list(hub.servers.glob("*.json"))
    done = post(hub, "/registry", form | {"value.X-Region": "eu"})
    assert done.status_code == 303, done.text
    assert mounted(hub, "weather")["headers"] == {"X-Region": "eu", "Authorization": "${AUTHORIZATION}"}


def test_an_entry_that_changed_since_it_was_shown_is_not_mounted(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """37.4"""
    form = hidden(show(hub, name="npm:@modelcontextprotocol/server-memory"))
    monkeypatch.setitem(VERSIONS, ("npm", "@modelcontextprotocol/server-memory"), "2026.12.1")
    refused = post(hub, "/registry", form)
    assert refused.status_code == 422 and "has changed this server" in refused.text and "2026.12.1" in refused.text
    assert not list(hub.servers.glob("*.json"))


def test_a_url_at_a_private_address_is_refused_for_an_administrator_of_another_machine(tmp_path: Path) -> None:
    """37.4: the entry is a text of a stranger."""
    inside = {"type": "sse", "url": "https://127.0.0.1:9/mcp"}
    with registries(server("com.example/inside", "Inside", "1.0", remotes=[inside])) as url:
        hub = Hub(tmp_path, registry=url, pypi=url, npm=url).log_in()
        try:
            form = hidden(show(hub, name="com.example/inside")) | {"as": "inside"}
            far = {"environ_overrides": {"REMOTE_ADDR": "203.0.113.9"}}
            refused = hub.client.post("/registry", data=form, headers=BROWSER, **far)
            assert refused.status_code == 422 and "127.0.0.1" in refused.text, refused.text
            assert not list(hub.servers.glob("*.json"))
        finally:
            hub.close()


def test_a_name_that_the_hub_has_is_replaced_only_with_the_box(hub: Hub) -> None:
    """37.4"""
    form = hidden(show(hub, name="pypi:mcp-server-git")) | {"as": "git"}
    assert post(hub, "/registry", form).status_code == 303
    assert "has a server git" in post(hub, "/registry", form).text
    assert post(hub, "/registry", form | {"replace": "on"}).status_code == 303


def test_only_an_administrator_asks_the_registry_and_only_a_form_of_the_hub_mounts(tmp_path: Path, url: str) -> None:
    """37.4"""
    hub = Hub(tmp_path, registry=url, pypi=url, npm=url, access="shared")
    try:
        for path in ("/registry?q=time", "/registry/updates"):
            assert hub.client.get(path, headers={"Accept": "application/json"}).status_code == 401
        hub.log_in()
        form = hidden(show(hub, name="pypi:mcp-server-git")) | {"as": "git"}
        assert post(hub, "/registry", form | {"csrf": "another"}).status_code == 403
        elsewhere = BROWSER | {"Origin": "https://evil.example"}
        assert hub.client.post("/registry", data=form, headers=elsewhere).status_code == 403
        assert not list(hub.servers.glob("*.json"))
    finally:
        hub.close()


def test_a_registry_that_is_away_is_named_on_the_page(tmp_path: Path) -> None:
    away = "http://127.0.0.1:1"
    hub = Hub(tmp_path, registry=away, pypi=away, npm=away).log_in()
    try:
        answer = hub.client.get("/registry?q=time", headers=BROWSER)
        assert answer.status_code == 200 and away in answer.text
    finally:
        hub.close()


LAUNCHER = """#!{python} -S
import json, sys
names = ["now"] if "2026.1.1" in " ".join(sys.argv) else ["now", "zone"]
tools = [{{"name": name, "inputSchema": {{"type": "object"}}}} for name in names]
about = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}}}
about["serverInfo"] = {{"name": "t", "version": "1"}}
answers = {{"initialize": about, "tools/list": {{"tools": tools}}, "ping": {{}}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        found = answers.get(asked["method"])
        more = {{"error": {{"code": -32601, "message": "no"}}}} if found is None else {{"result": found}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"]}} | more), flush=True)
"""
"""A program in place of uv: a server whose second version has one more tool."""


@pytest.mark.process
def test_an_update_is_rehearsed_and_needs_a_consent_when_it_lists_other_entries(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """37.4"""
    launchers = tmp_path / "bin"
    launchers.mkdir()
    (launchers / "uv").write_text(LAUNCHER.format(python=sys.executable))
    (launchers / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{launchers}:/usr/bin:/bin")
    old = {"kind": "upstream", "address": "mcp+uvx://mcp-server-time@2026.1.1"}
    hub = Hub(tmp_path, {"time.json": json.dumps(old)}, registry=url, pypi=url, npm=url).log_in()
    newest = VERSIONS["pypi", "mcp-server-time"]
    try:
        until(lambda: load_pins(hub.catalogue.store, "time").document, "its pins")
        page = hub.client.get("/registry/updates", headers=BROWSER).text
        assert newest in page and "2026.1.1" in page
        form = hidden(page)
        held = post(hub, "/registry/updates", form)
        assert held.status_code == 409 and "tool:zone is new" in held.text, held.text
        assert mounted(hub, "time") == old
        assert post(hub, "/registry/updates", form | {"version": "1.0"}).status_code == 422
        done = post(hub, "/registry/updates", form | {"accept": newest})
        assert done.status_code == 303, done.text
        assert mounted(hub, "time")["address"] == f"mcp+uvx://mcp-server-time@{newest}"
        assert "is new" not in hub.client.get("/registry/updates", headers=BROWSER).text
    finally:
        hub.close()
