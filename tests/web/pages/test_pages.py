"""The pages: what each shows, and that content-addressed templates are what is shown below /mcp."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from patchbay.boot import change_names
from patchbay.cid import cid_of
from patchbay.kinds.confinement_description import confinement
from tests.hubs import Hub
from tests.web.browsing import BROWSER, get, links, read, read_json, set_variable
from tests.wire.hostile import Reader


def test_the_instruction_page_says_how_to_connect(client: FlaskClient) -> None:
    """VWR-5: overview, documentation, /variables/mcps, servers with endpoint and meta page."""
    html = read(client, "/mcp")
    assert {"https://modelcontextprotocol.io", "/variables/mcps", "/mcp/town", "/servers/town"} <= links(html)
    assert {"/mcp/echo", "/servers/echo", "/servers/broken"} <= links(html)
    assert "claude mcp add --transport http patchbay http://localhost/mcp" in html


def test_the_meta_page_says_what_a_server_offers(client: FlaskClient, hub: Hub) -> None:
    """VWR-6: description, tools with schemas, resources, prompts, connection test, client snippets."""
    text = Reader(html := read(client, "/servers/town")).text
    for part in ("A small town.", "Ask before you go.", "visit", "Where to go.", "required", "town://map", "plan"):
        assert part in text
    assert '"additionalProperties"' in text or '"properties"' in text
    assert 'data-connect="/mcp/town"' in html
    assert '<script src="/static/try/main.js" type="module"></script>' in html
    assert 'data-try="tool" data-key="visit" data-endpoint="/mcp/town"' in html
    assert "claude mcp add --transport http town http://localhost/mcp/town" in text
    server = hub.catalogue.find("town")
    settings = read(client, "/servers/town/settings")
    assert {f"/cid/{server.version}", f"/cid/{server.definition}"} <= links(settings)
    assert f"http://localhost/mcp/town@{server.version}" in Reader(settings).text
    assert server.tools["visit"].digest in html


def test_the_meta_page_and_its_json_say_how_a_server_runs(client: FlaskClient, hub: Hub) -> None:
    """THREATS 1.6: what confines its code, and what does not."""
    rows = {row["name"]: row["runs"] for row in get(client, "/servers.json").json or []}
    for name in ("town", "echo", "jq"):
        server = hub.catalogue.find(name)
        runs = confinement(server.kind, server.config, hub.settings.isolation, hub.settings.memory)
        assert rows[name] == asdict(runs)
        assert runs.sentence[1:] in Reader(read(client, f"/servers/{name}/settings")).text
    assert rows["town"]["sentence"] == "in a process of its own, memory 512 MiB"


def test_the_meta_page_says_why_something_is_not_listed(client: FlaskClient) -> None:
    text = Reader(read(client, "/servers/town")).text
    assert "Not listed" in text
    assert "many" in text.split("Not listed")[1]


def test_the_page_of_one_version_connects_to_that_version(client: FlaskClient, hub: Hub) -> None:
    version = hub.catalogue.find("town").version
    text = Reader(read(client, f"/servers/town@{version}")).text
    assert f"claude mcp add --transport http town http://localhost/mcp/town@{version}" in text
    read(client, f"/servers/town@{cid_of(b'never')}", 404)


def test_a_broken_server_says_why_and_offers_no_test(client: FlaskClient) -> None:
    for path in ("/servers/broken", "/servers/broken/source", "/servers", "/"):
        html = read(client, path)
        assert "line 1" in Reader(html).text or path == "/servers"
    assert "data-connect" not in read(client, "/servers/broken")


def test_a_server_that_is_off_says_so_and_offers_no_test(client: FlaskClient) -> None:
    html = read(client, "/servers/off")
    assert "switched off" in html
    assert "data-connect" not in html


def test_the_endpoint_sends_a_browser_to_the_meta_page(client: FlaskClient) -> None:
    """V-C8."""
    answer = get(client, "/mcp/town", 303)
    assert answer.headers["Location"] == "/servers/town"


def test_home_shows_the_servers_and_one_line_to_connect(client: FlaskClient) -> None:
    html = read(client, "/")
    assert html.count("claude mcp add") == 1
    assert {"/servers/town", "/servers/jq", "/mcp"} <= links(html)


def test_a_server_page_shows_its_source_and_versions(client: FlaskClient, hub: Hub) -> None:
    assert "def visit(place: str" in Reader(read(client, "/servers/town/source")).text
    assert f"/servers/town@{hub.catalogue.find('town').version}" in links(read(client, "/servers/town/past"))
    read(client, "/servers/nobody", 404)


def test_a_variable_page_shows_value_content_and_past(client: FlaskClient, hub: Hub) -> None:
    first, second = b'{"b":1,"a":[]}', b'{"b":2}'
    set_variable(hub, "shown", first, "first")
    set_variable(hub, "shown", second, "second thoughts")
    text = Reader(html := read(client, "/variables/shown")).text
    assert '"b": 2' in text
    assert "second thoughts" in text
    assert {f"/cid/{cid_of(first)}", f"/cid/{cid_of(second)}"} <= links(html)
    assert "/variables/shown" in links(read(client, "/variables"))
    read(client, "/variables/nobody", 404)


def test_the_configurations_in_mcps_are_links(client: FlaskClient, hub: Hub) -> None:
    html = read(client, "/variables/mcps")
    config = hub.catalogue.find("echo").config_cid
    assert f"/cid/{config}" in links(html)


def test_an_error_in_mcps_is_shown_on_the_pages_of_servers(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    store = hub.catalogue.store
    good = store.names.get("variables/mcps")
    store.names.move({"variables/mcps": store.blobs.put(b"{not json")}, "an older hub", "a slip")
    hub.catalogue.refresh()
    for path in ("/", "/mcp", "/variables/mcps"):
        text = Reader(read(hub, path)).text
        assert "is invalid" in text
        assert f"its earlier value {good} is in force" in text
    hub.close()


def test_history_says_when_who_why_and_what(client: FlaskClient, hub: Hub) -> None:
    set_variable(hub, "past", b"1", "to have a past")
    text = Reader(html := read(client, "/history")).text
    assert "to have a past" in text
    assert "variable past" in text
    assert f"/cid/{hub.catalogue.store.names.get('root')}" in links(html)
    newest = read_json(client.get("/history.json"))["changes"][0]
    assert newest["changed"] == [{"verb": "added", "name": "variables/past", "cid": None}]


def test_the_list_of_servers_is_there_for_programs(client: FlaskClient) -> None:
    answer = client.get("/servers.json")
    assert answer.mimetype == "application/json"
    found = {server["name"]: server for server in read_json(answer)}
    assert found["town"]["status"] == "on"
    assert found["broken"]["status"] == "broken"


def test_a_stored_template_is_what_is_shown(client: FlaskClient, hub: Hub) -> None:
    """VWR-35: the pages below /mcp are content, loaded by name from the store."""
    store = hub.catalogue.store
    before = store.names.get("templates/mcp/instruction.html")
    assert before is not None
    own = store.blobs.put(b'{% extends "base.html" %}{% block main %}<h1>Mine {{ 6 * 7 }}</h1>{% endblock %}')
    change_names(store, {"templates/mcp/instruction.html": own}, "test", "a page of my own")
    assert "<h1>Mine 42</h1>" in read(client, "/mcp")
    change_names(store, {"templates/mcp/instruction.html": None}, "test", "the shipped one")
    assert "/variables/mcps" in links(read(client, "/mcp"))
    change_names(store, {"templates/mcp/instruction.html": before}, "test", "as it was")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"{% if %}", "line 1"),
        (b"\n\n{{ nobody }}", "nobody"),
        (b"{{ ''.__class__.__mro__ }}", "unsafe"),
        (b"{{ site.__class__.__base__.__subclasses__() }}", "unsafe"),
        (b"{% include '../app.py' %}", "app.py"),
        (b"\xff", "utf-8"),
    ],
)
def test_a_stored_template_that_cannot_be_used_is_named(
    client: FlaskClient, hub: Hub, source: bytes, said: str
) -> None:
    store = hub.catalogue.store
    before = store.names.get("templates/mcp/meta.html")
    cid = store.blobs.put(source)
    change_names(store, {"templates/mcp/meta.html": cid}, "test", "a broken page")
    text = Reader(read(client, "/servers/town", 500)).text
    assert cid in text
    assert said in text
    change_names(store, {"templates/mcp/meta.html": before}, "test", "as it was")


def test_a_broken_error_template_does_not_hide_the_error(client: FlaskClient, hub: Hub) -> None:
    store = hub.catalogue.store
    before = store.names.get("templates/mcp/error.html")
    change_names(store, {"templates/mcp/error.html": store.blobs.put(b"{% if %}")}, "test", "a broken page")
    assert "There is no server" in Reader(read(client, "/servers/nobody", 404)).text
    change_names(store, {"templates/mcp/error.html": before}, "test", "as it was")


def test_every_page_is_built_for_each_visitor(client: FlaskClient) -> None:
    tabs = [f"/servers/town{tab}" for tab in ("", "/source", "/past", "/settings")]
    for path in ("/", "/mcp", *tabs, "/servers", "/variables", "/history"):
        html = read(client, path)
        assert html.startswith("<!doctype html>")
        assert '<html lang="en">' in html
        assert html.count("<main") == html.count("<h1") == html.count('<nav aria-label="Main"') == 1
        assert 'href="#main"' in html
        assert "style=" not in html


def test_the_links_of_every_page_lead_somewhere(client: FlaskClient) -> None:
    seen: set[str] = set()
    ahead = ["/"]
    while ahead:
        path = ahead.pop()
        answer = client.get(path, headers=BROWSER)
        answer.close()
        assert answer.status_code in (200, 303, 308), path
        if answer.mimetype == "text/html" and answer.status_code == 200:
            found = {each.removeprefix("http://localhost") for each in links(answer.get_data(as_text=True))}
            ahead += sorted(each for each in found - seen if each.startswith("/"))
            seen |= found
    assert len(seen) > 20


def test_many_resources_and_prompts_come_in_pages_too(tmp_path: Path) -> None:
    """A library of 10,000 documents made a page of ten megabytes."""
    things = {f"t{n}": {"uri": f"x://{n}", "text": "x", "description": "Pumpkin."} for n in range(250)}
    prompts = {f"p{n}": {"messages": [{"content": "x"}]} for n in range(120)}
    many = {"kind": "static", "resources": things, "prompts": prompts}
    hub = Hub(tmp_path, {"many.json": json.dumps(many)})
    html = read(hub, "/servers/many")
    assert html.count('id="resource-') == 60 and "?page=7#tools" in html
    html = read(hub, "/servers/many?page=2")
    assert 'id="resource-61"' in html and 'href="#resource-120"' in html
    html = read(hub, "/servers/many?page=5")
    assert html.count('id="resource-') == 10 and html.count('id="prompt-') == 50
    assert len((get(hub, "/mcp/meta/many.json").json or {})["server"]["resources"]) == 250
    found = hub.client.get("/search.json?q=t249").json or []
    assert found[0]["page"] == "/servers/many?resource=x%3A%2F%2F249#resource-250"
    hub.close()


@pytest.mark.parametrize("page", ["0", "2", "000001" + "0" * 5000, "000001999", "x", "-1"])
def test_an_invalid_page_number_is_refused(client: FlaskClient, page: str) -> None:
    assert client.get(f"/servers/town?page={page}", headers=BROWSER).status_code == 400
