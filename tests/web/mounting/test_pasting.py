"""`/servers/new`: a pasted configuration is answered with what would run, and one button mounts it. Issue 47.11."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.client.reaching import SCRIPTED
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, read
from tests.web.inspecting import page_text
from tests.wire.hostile import HOSTILE, Reader

NO_HEADERS: Mapping[str, str] = {}
PATH = "/servers/new/pasted"
TOKEN = "ghp_0123456789abcdef"
PROGRAM = {"command": sys.executable, "args": ["-S", str(SCRIPTED)], "env": {"LEVEL": "low"}}
FAR = {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    one = Hub(tmp_path).log_in()
    yield one
    one.close()


def csrf(hub: Hub) -> str:
    found = re.search(rf'action="{PATH}".*?name="csrf" value="([^"]*)"', read(hub, "/servers/new"), re.DOTALL)
    assert found
    return found[1]


def send(hub: Hub, fields: Mapping[str, str], headers: Mapping[str, str] = NO_HEADERS) -> TestResponse:
    """Send a form of the page."""
    answer = hub.client.post(PATH, data={"csrf": csrf(hub), **fields}, headers={**BROWSER, **headers})
    if answer.mimetype == "text/html" and answer.status_code != 303:
        assert Reader(answer.text).faults == []
    return answer


def paste(hub: Hub, text: str, headers: Mapping[str, str] = NO_HEADERS) -> TestResponse:
    """Paste a text."""
    return send(hub, {"text": text}, headers)


def forms(page: str) -> list[dict[str, str]]:
    """The fields of each form that mounts a server, as a browser would send them."""
    found = re.findall(r'<form method="post" action="[^"]+" class="filters".*?</form>', page, re.DOTALL)
    return [
        {
            name: unescape(value)
            for name, value in re.findall(r'<input (?:type="\w+" )?name="([\w-]+)" value="([^"]*)"', one)
        }
        for one in found
    ]


def mounts(hub: Hub) -> dict[str, Any]:
    return {file.stem: json.loads(file.read_text("utf-8")) for file in hub.servers.glob("*.json")}


@pytest.mark.process
def test_a_paste_is_answered_with_what_will_run_and_one_button_mounts_it(hub: Hub) -> None:
    page = paste(hub, json.dumps({"mcpServers": {"piped": PROGRAM}})).text
    text = page_text(page)
    assert f"{sys.executable} -S {SCRIPTED}" in text
    assert "runs on this machine" in text
    assert not mounts(hub)
    (form,) = forms(page)
    done = send(hub, form)
    assert (done.status_code, done.headers["Location"]) == (303, "/servers/piped")
    assert mounts(hub)["piped"]["environment"] == {"LEVEL": "low"}
    until(lambda: hub.catalogue.find("piped").tools, "its tools")
    assert hub.call("piped", "echo", {"a": 1}).text == '{"a": 1}'


def test_the_page_offers_what_the_program_names_and_a_tick_writes_it(hub: Hub, tmp_path: Path) -> None:
    for name in ("notes", "tiles"):
        (tmp_path / "user" / name).mkdir(parents=True)
    notes, tiles = (str(tmp_path / "user" / name) for name in ("notes", "tiles"))
    args = ["-y", "@modelcontextprotocol/server-filesystem", notes, str(hub.settings.data)]
    answer = paste(hub, json.dumps({"mcpServers": {"files": {"command": "npx", "args": args}}}))
    page = unescape(answer.text)
    assert f"It may change {notes}" in page and f"{hub.settings.data} (an argument) is not proposed" in page
    assert re.findall(r'name="allow-1" value="([^"]*)" checked', answer.text)
    [form] = forms(answer.text)
    assert send(hub, form).status_code == 303
    assert json.loads((hub.settings.servers / "files.json").read_text())["writes"] == [notes]
    unticked = {name: value for name, value in form.items() if not name.startswith("allow-")}
    assert send(hub, {**unticked, "name": "others"}).status_code == 303
    assert "writes" not in json.loads((hub.settings.servers / "others.json").read_text())
    plain = paste(hub, f"npx -y weather-tiles {tiles}").text
    assert f"It may change {tiles}" in unescape(plain) and "checked" not in plain
    assert "Calls of excel-mcp-server may name files of yours" in paste(hub, "uvx excel-mcp-server stdio").text


@pytest.mark.parametrize("line", ["{", "[]", '{"confine": "off"}', '{"address": "mcp+npx://other"}'])
def test_a_line_that_the_page_did_not_show_is_refused(hub: Hub, line: str) -> None:
    [form] = forms(paste(hub, "npx -y some-package").text)
    assert send(hub, {**form, "allow-1": line}).status_code == 422
    assert not list(hub.settings.servers.glob("*.json"))


@pytest.mark.parametrize(
    ("url", "name"), [("https://api.shop.example/openapi.yaml", "shop"), ("https://shop.example", "shop")]
)
def test_the_form_for_an_http_api_is_answered_with_what_it_reaches_and_mounts_it(hub: Hub, url: str, name: str) -> None:
    page = read(hub, "/servers/new")
    assert 'href="#api"' in page and re.search(
        rf'action="{PATH}"[^>]*>(?:(?!</form>).)*name="document"', page, re.DOTALL
    )
    answer = send(hub, {"document": url})
    assert answer.status_code == 200 and not mounts(hub)
    [form] = forms(answer.text)
    assert send(hub, form).status_code == 303
    assert mounts(hub)[name] == {"kind": "openapi", "document": f"openapi+{url}"}


@pytest.mark.parametrize("typed", ["shop", "file:///etc/passwd", "mcp+stdio:ls"])
def test_the_form_for_an_http_api_takes_a_url_alone_and_keeps_another_text(hub: Hub, typed: str) -> None:
    answer = send(hub, {"document": typed})
    assert answer.status_code == 422 and "expected the URL of an OpenAPI document" in page_text(answer.text)
    assert f"{typed}</textarea>" in answer.text and not mounts(hub)


def test_a_secret_of_a_paste_becomes_a_reference_and_is_not_sent_back(hub: Hub) -> None:
    page = paste(hub, json.dumps({"servers": {"far": FAR, "near": PROGRAM}})).text
    assert TOKEN not in page
    assert "FAR_AUTHORIZATION: not set: store it" in page_text(page)
    assert [form["name"] for form in forms(page)] == ["far", "near"]
    assert send(hub, forms(page)[0]).status_code == 303
    assert mounts(hub)["far"]["headers"] == {"Authorization": "Bearer ${FAR_AUTHORIZATION}"}
    assert TOKEN not in (hub.servers / "far.json").read_text("utf-8")


def test_a_secret_that_a_file_has_is_set(tmp_path: Path) -> None:
    """Issue 56, 1."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    hub = Hub(tmp_path / "hub", secrets_dir=str(folder)).log_in()
    try:
        assert "FAR_AUTHORIZATION: not set" in page_text(paste(hub, json.dumps({"servers": {"far": FAR}})).text)
        (folder / "FAR_AUTHORIZATION").write_text("value")
        assert "FAR_AUTHORIZATION: set" in page_text(paste(hub, json.dumps({"servers": {"far": FAR}})).text)
        (folder / "FAR_AUTHORIZATION").write_bytes(b"\xff")
        assert "FAR_AUTHORIZATION: not set" in page_text(paste(hub, json.dumps({"servers": {"far": FAR}})).text)
    finally:
        hub.close()


def test_a_reader_of_json_gets_the_same_and_an_error(hub: Hub) -> None:
    json_only = {"Accept": "application/json"}
    found = paste(hub, "npx -y some-package", json_only).get_json()
    assert found["problem"] is None
    assert [(one["name"], one["runs"]) for one in found["servers"]] == [("some-package", "npx -y some-package")]
    assert paste(hub, "{", json_only).status_code == 400


def test_a_text_that_cannot_be_read_comes_back_with_the_reason(hub: Hub) -> None:
    answer = paste(hub, '{"mcpServers": {')
    assert answer.status_code == 422
    assert "expected a string in double quotes at line 1" in answer.text
    area = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
    assert area and unescape(area[1]) == '{"mcpServers": {'


def test_a_server_that_cannot_be_mounted_has_no_button(hub: Hub) -> None:
    page = paste(hub, json.dumps({"mcpServers": {"odd": {"command": "a", "envFile": ".env"}}})).text
    assert "envFile" in page_text(page)
    assert forms(page) == []


def test_a_taken_name_is_replaced_only_with_the_box(hub: Hub) -> None:
    (form,) = forms(paste(hub, "https://far.example/mcp").text)
    assert send(hub, form).status_code == 303
    again = send(hub, form)
    assert again.status_code == 422
    assert "has a server far" in again.text
    assert [one["name"] for one in forms(again.text)] == ["far"]
    assert send(hub, form | {"replace": "on"}).status_code == 303
    assert "no mount of the servers folder" in send(hub, form | {"name": "echo", "replace": "on"}).text


@pytest.mark.parametrize(
    "definition", ["{", "[]", '{"kind": "static"}', '{"kind": "upstream"}', '{"kind": "upstream", "address": "x:"}']
)
def test_a_definition_that_is_no_mount_is_refused(hub: Hub, definition: str) -> None:
    assert send(hub, {"definition": definition, "name": "odd"}).status_code == 422
    assert not mounts(hub)


@pytest.mark.parametrize(
    "fields", [{"text": "npx -y x"}, {"definition": '{"kind": "upstream", "address": "mcp+npx://x"}', "name": "x"}]
)
def test_only_the_operator_and_only_a_form_of_the_hub_may_paste(hub: Hub, fields: dict[str, str]) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert send(hub, fields, headers).status_code == 403
    assert hub.client.post(PATH, data=fields | {"csrf": "another"}, headers=BROWSER).status_code == 403
    proof = csrf(hub)
    stranger = hub.app.test_client()
    assert stranger.post(PATH, data=fields | {"csrf": proof}, headers=BROWSER).status_code == 401
    assert not mounts(hub)


def test_a_read_only_hub_mounts_no_paste(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly").log_in()
    try:
        for fields in ({"text": "npx -y x"}, {"definition": '{"kind": "upstream", "address": "@x"}', "name": "x"}):
            proof = re.findall(r'name="csrf" value="([^"]+)"', read(hub, "/servers/new"))[0]
            assert hub.client.post(PATH, data=fields | {"csrf": proof}, headers=BROWSER).status_code == 405
    finally:
        hub.close()


def test_a_url_at_a_private_address_is_refused_for_an_operator_of_another_machine(hub: Hub) -> None:
    (form,) = forms(paste(hub, "http://127.0.0.1:9/mcp").text)
    far = {"environ_overrides": {"REMOTE_ADDR": "203.0.113.9"}}
    refused = hub.client.post(PATH, data=form | {"csrf": csrf(hub)}, headers=BROWSER, **far)
    assert refused.status_code == 422
    assert "127.0.0.1" in refused.text
    assert not mounts(hub)


PUBLIC = "https://8.8.8.8/openapi.json"
PRIVATE = "http://127.0.0.1:9/v1"
LOGIN = {"client_id": "a", "client_secret": "${THE_SECRET}", "token_url": PRIVATE}


@pytest.mark.parametrize(
    "fields",
    [
        {"document": f"openapi+{PRIVATE}"},
        {"document": PRIVATE.upper()},
        {"document": f"openapi+file:{PRIVATE}"},
        {"document": "openapi+http://[::ffff:10.0.0.1]/openapi.json"},
        {"document": "${API}/openapi.json"},
        {"document": PUBLIC, "base": PRIVATE},
        {"document": PUBLIC, "credentials": {"login": LOGIN}},
        {"document": PUBLIC, "base": "https://8.8.8.8", "account": "caller", "oauth": {"issuer": PRIVATE}},
    ],
)
def test_an_api_at_a_private_address_is_refused_for_an_operator_of_another_machine(
    hub: Hub, fields: dict[str, Any]
) -> None:
    form = {"definition": json.dumps({"kind": "openapi", **fields}), "name": "api", "csrf": csrf(hub)}
    far = {"environ_overrides": {"REMOTE_ADDR": "203.0.113.9"}}
    refused = hub.client.post(PATH, data=form, headers=BROWSER, **far)
    assert refused.status_code == 422
    assert re.search("<p[^>]*>.*(public address|has no address)", refused.text), refused.text[:3000]
    assert not mounts(hub)


def test_an_api_at_a_public_address_is_mounted_by_an_operator_of_another_machine(hub: Hub) -> None:
    form = {"definition": json.dumps({"kind": "openapi", "document": PUBLIC}), "name": "api", "csrf": csrf(hub)}
    far = {"environ_overrides": {"REMOTE_ADDR": "203.0.113.9"}}
    assert hub.client.post(PATH, data=form, headers=BROWSER, **far).status_code == 303
    assert mounts(hub)["api"]["document"] == PUBLIC


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_paste_stays_text(hub: Hub, text: str) -> None:
    entry = {"command": text or "x", "args": [text], "env": {"A": text}, text: text}
    answer = paste(hub, json.dumps({"mcpServers": {text: entry}}))
    assert answer.status_code == 200
    assert paste(hub, text or "{").status_code in (200, 422)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("openapi+file:missing.yaml", "there is no file {}/missing.yaml; write the path"),
        ('{"kind": "openapi", "document": "missing.yaml"}', "there is no file {}/missing.yaml"),
        ('{"kind": "openapi", "document": "broken.yaml"}', "broken.yaml: expected JSON or YAML"),
        ("@library", "there is no profile library; searched"),
        ("mcp://shop", "no such preset in"),
    ],
)
def test_a_mount_of_what_does_not_exist_or_describes_no_api_has_no_button_and_is_refused(
    hub: Hub, text: str, expected: str
) -> None:
    (hub.servers / "broken.yaml").write_text("info: {title: Shop\n")
    answer = paste(hub, text)
    assert expected.format(hub.servers) in page_text(answer.text)
    assert forms(answer.text) == []
    place = json.loads(text) if text.startswith("{") else None
    kind = {"kind": "openapi", "document": text} if "openapi" in text else {"kind": "upstream", "address": text}
    sent = send(hub, {"definition": json.dumps(place or kind), "name": "odd"})
    assert sent.status_code == 422 and expected.format(hub.servers) in page_text(sent.text)
    assert not mounts(hub)


def test_a_profile_of_an_http_api_is_mounted_with_its_document(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    profile = tmp_path / ".local" / "jn" / "profiles" / "http" / "library"
    profile.mkdir(parents=True)
    (profile / "openapi.yaml").write_text("openapi: 3.1.0\npaths: {}\n")
    connection = {"document": "openapi.yaml", "base_url": "https://library.example"}
    (profile / "_meta.json").write_text(json.dumps({"plugin": "http", "connection": connection}))
    [form] = forms(paste(hub, "@library").text)
    assert send(hub, form).status_code == 303
    found = {"kind": "openapi", "document": f"{profile}/openapi.yaml", "base": "https://library.example"}
    assert mounts(hub) == {"library": found}
