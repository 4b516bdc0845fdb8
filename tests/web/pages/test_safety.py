"""Nothing a stranger wrote can run in a page, every route has its headers, every error has its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.web.application import Application
from patchbay.wire.requests.security import CSP, CSP_WITH_APPS
from tests.hubs import Hub
from tests.web.browsing import BROWSER, read, read_json, set_variable, town_hub
from tests.wire.hostile import HOSTILE, Reader, forms_of, is_shown

TOOLS = "def run(value: str = '') -> str:\n    return value\n"


def hostile_files() -> dict[str, str]:
    """One server for each hostile string in every field that takes text, and one server with a tool for each."""
    files = {f"h{index:02}.json": orjson.dumps(hostile_config(text)).decode() for index, text in enumerate(HOSTILE)}
    tools = {f"t{index:02}": hostile_tool(text) for index, text in enumerate(HOSTILE)}
    source = f'"""{HOSTILE[0]}"""\n# {HOSTILE[14]}\n{TOOLS}'
    return files | {"tools.py": source, "tools.mcp.json": orjson.dumps({"tools": tools}).decode()}


def hostile_config(text: str) -> dict[str, Any]:
    return {
        "kind": "static",
        "title": text,
        "description": text,
        "instructions": text,
        "resources": {"r": {"uri": "x:y", "name": text, "title": text, "description": text, "text": text}},
        "prompts": {
            "p": {
                "title": text,
                "description": text,
                "arguments": [{"name": "a", "title": text, "description": text}],
                "messages": [{"content": text}],
            }
        },
    }


def hostile_tool(text: str) -> dict[str, Any]:
    property_ = {"type": "string", "description": text, "default": text, "enum": [text]}
    schema = {"type": "object", "properties": {text: property_}, "required": [text]}
    return {"title": text, "description": text, "function": "run", "inputSchema": schema}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = town_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hostile"), hostile_files())
    for index, text in enumerate(HOSTILE):
        set_variable(hub, f"v{index:02}", text.encode(), text)
    yield hub
    hub.close()


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_nothing_a_stranger_wrote_runs_in_a_page(hostile: Hub, index: int) -> None:
    """T14.2, G28, S24: the string is shown as it is, and nothing of it became an element or an attribute."""
    text = HOSTILE[index]
    name, variable = f"h{index:02}", f"v{index:02}"
    for path in (f"/servers/{name}", f"/servers/{name}/source", f"/variables/{variable}"):
        page = Reader(html := read(hostile, path))
        assert page.faults == [], path
        assert is_shown(text, page.text), path
        assert "<" not in text or text not in html


@pytest.mark.parametrize(
    "path", ["/", "/mcp", "/servers", "/variables", "/history", "/servers/tools", "/servers/tools/source"]
)
def test_nothing_a_stranger_wrote_runs_in_a_list(hostile: Hub, path: str) -> None:
    """T14.2: all sixty strings on one page."""
    page = Reader(read(hostile, path))
    assert page.faults == []


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_the_query_and_the_results_of_a_search_are_shown_as_text(hostile: Hub, index: int) -> None:
    """T14.2: the query in its field, and titles and descriptions with what matched marked."""
    page = Reader(
        hostile.client.get("/search", query_string={"q": HOSTILE[index]}, headers=BROWSER).get_data(as_text=True)
    )
    assert page.faults == []


def test_results_of_many_hostile_servers_are_shown_as_text(hostile: Hub) -> None:
    """T14.2: titles and descriptions with what matched marked."""
    found = Reader(read(hostile, "/search?q=alert"))
    assert found.faults == [] and "alert(1)" in found.text


def test_every_hostile_tool_is_shown_as_it_is(hostile: Hub) -> None:
    """T14.2: in names of arguments, descriptions, defaults, enumerations and schemas."""
    for index, text in enumerate(HOSTILE):
        page = Reader(read(hostile, f"/servers/tools?tool=t{index:02}&part=entry"))
        shown = " ".join(page.text.split())
        assert page.faults == []
        assert sum(shown.count(form) for form in forms_of(text)) >= 3, text


@pytest.mark.parametrize("text", HOSTILE)
def test_an_address_that_is_hostile_is_shown_as_text(hub: Hub, text: str) -> None:
    """T14.2: in the sentence of an error."""
    for template in ("/servers/{}", "/mcp/meta/{}", "/servers/{}/past", "/variables/{}", "/cid/{}", "/{}"):
        answer = hub.client.get(template.format(text), headers=BROWSER)
        assert 300 <= answer.status_code < 500
        if answer.mimetype == "text/html":
            assert Reader(answer.get_data(as_text=True)).faults == []
        assert answer.headers.get("Location", "/").startswith(("/", "http://localhost/"))


def test_arithmetic_in_data_is_not_done(hostile: Hub) -> None:
    """T14.2: {{7*7}} stays unchanged."""
    index = HOSTILE.index("{{7*7}}")
    for path in (f"/servers/h{index}", f"/variables/v{index}"):
        text = Reader(read(hostile, path)).text
        assert "{{7*7}}" in text


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere/at/all", 404), ("/mcp/meta/nobody", 404), ("/servers/nobody", 404)]
)
def test_an_error_has_the_form_the_client_wants(hub: Hub, path: str, status: int) -> None:
    assert Reader(read(hub, path, status)).faults == []
    plain = hub.client.get(path, headers={"Accept": "*/*"})
    json = hub.client.get(path, headers={"Accept": "application/json"})
    assert (plain.status_code, json.status_code) == (status, status)
    if path.startswith("/mcp"):
        assert read_json(plain)["id"] is None
        assert read_json(plain)["error"]["code"] == -32600
    else:
        assert plain.mimetype == "text/plain"
        assert read_json(json)["error"]
    assert all("Accept" in answer.headers["Vary"] for answer in (plain, json))


def test_a_method_that_is_not_served_is_refused_with_those_that_are(hub: Hub) -> None:
    answer = hub.client.delete("/servers", headers=BROWSER)
    assert answer.status_code == 405
    assert "GET" in answer.headers["Allow"]
    assert "DELETE" not in answer.headers["Allow"]


def test_an_unexpected_exception_is_answered_with_an_incident_number_alone(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    """T5.5: the log has the trace, the caller has its number."""
    app = hub.app
    with app.test_request_context("/servers", headers=BROWSER):
        response = app.ensure_sync(app.handle_user_exception)(RuntimeError("secret /etc/path"))
        body = app.make_response(response).get_data(as_text=True)
    incident = re.search(r"incident number <code>([0-9a-f]{12})</code>", body)
    assert incident is not None
    assert "secret" not in body
    assert "Traceback" not in body
    assert incident[1] in caplog.text
    assert "secret /etc/path" in caplog.text


PLACES = {
    "address": "town",
    "name": "town",
    "function": "visit",
    "endpoint": "town",
    "filename": "style.css",
}


def routes(app: Application) -> Iterator[str]:
    """A path for every rule that GET may ask for."""
    app.parts.pages.load()
    for rule in app.url_map.iter_rules():
        if "GET" in (rule.methods or ()):
            known = {name: PLACES.get(name, "town") for name in rule.arguments}
            with app.test_request_context():
                yield str(app.url_map.bind("localhost").build(rule.endpoint, known))


WITH_APPS = ("/servers/town", "/mcp/meta/town", "/inspect")
"""The pages that show apps."""

FRAME = "/render/app"
"""The frame of an app has a policy of its own (tests/web/rendering/test_app_frames.py)."""


def test_every_route_has_its_headers_and_no_page_has_script_of_its_own(hub: Hub) -> None:
    """VWR-35, S24: whatever is HTML, errors too, has the policy, no inline code and no cache."""
    pages = 0
    for path in routes(hub.app):
        answer = hub.client.get(path, headers=BROWSER)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        answer.close()
        if answer.mimetype == "text/html" and answer.status_code != 303 and path != FRAME:
            pages += 1
            assert answer.headers["Content-Security-Policy"] == (CSP_WITH_APPS if path in WITH_APPS else CSP), path
            assert answer.headers["Cache-Control"] == "no-store", path
            assert answer.headers["Referrer-Policy"] == "same-origin", path
            assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin", path
            assert Reader(answer.get_data(as_text=True)).faults == [], path
    assert pages >= 8


def test_every_route_looks_at_host_and_origin_first(hub: Hub) -> None:
    """T14.4."""
    for path in [*routes(hub.app), "/nowhere/at/all"]:
        assert hub.client.get(path, headers={"Host": "evil.example"}).status_code == 421, path
        assert hub.client.get(path, headers={"Origin": "https://evil.example"}).status_code == 403, path
        assert hub.client.get(path, headers={"Origin": "null"}).status_code == 403, path


def test_a_refused_host_hears_json_below_mcp_and_a_page_elsewhere(hub: Hub) -> None:
    headers = {**BROWSER, "Host": "evil.example"}
    below = hub.client.post("/mcp/town", headers=headers, data=b"{}")
    assert (below.status_code, below.mimetype, read_json(below)["id"]) == (421, "application/json", None)
    page = hub.client.get("/servers", headers=headers)
    assert (page.status_code, page.mimetype) == (421, "text/html")
    assert page.headers["Content-Security-Policy"] == CSP
