"""The page of one server: its tabs, its search, and what it says about a server that cannot do its work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs import Hub
from tests.web.browsing import BROWSER, get, links, read, read_json
from tests.wire.hostile import Reader


@pytest.fixture(scope="module")
def ailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a folder that does not exist, a server without tools, a broken server and one that works."""
    folder = tmp_path_factory.mktemp("ailing")
    files = {
        "notes.json": json.dumps({"kind": "documents", "root": str(folder / "absent")}),
        "empty.py": '"""Empty."""\n\ndef _helper():\n    return 1\n',
        "wrong.py": '"""Wrong."""\n\ndef f(:\n    pass\n',
        "fine.py": '"""Fine."""\n\ndef paint(): ...\ndef draw():\n    """Make a sketch."""\n\ndef _private(): ...\n',
    }
    files |= {"notes.txt": "not a server", "fine.sh": "#!/bin/sh\ntrue\n"}
    hub = Hub(folder, files)
    yield hub
    hub.close()


def test_the_tabs_of_a_server_lead_to_each_other(ailing: Hub) -> None:
    """Issue 17, item 5: one page for each server."""
    tabs = {f"/servers/fine{tab}" for tab in ("", "/source", "/past", "/settings")}
    for tab in tabs:
        html = read(ailing, tab)
        assert tabs <= links(html)
        assert f'<a href="{tab}" aria-current="page">' in html


def test_a_wrong_name_in_an_annotation_needs_attention_on_the_pages(tmp_path: Path) -> None:
    """Issue 47 item 7: the home page, the page of the server and its source name the line."""
    hub = Hub(tmp_path, {"sums.py": "def total(rows: lst[dict]) -> str:\n    return 'x'\n"}, isolation="inline")
    try:
        for path in ("/", "/servers/sums", "/servers/sums/source"):
            assert "names &#39;lst&#39;, which is not defined" in read(hub, path), path
        assert "(line 1)" in read(hub, "/servers/sums")
        assert "NameError" in hub.call("sums", "total", {"rows": []}, "2026-07-28").text
    finally:
        hub.close()


def test_the_meta_address_is_the_page_itself(ailing: Hub) -> None:
    """VWR-6, 50.17: status 200 and no redirect, as Viewer's routes say; the same page as at /servers/<name>."""
    for path in ("fine", "fine?page=1", f"fine@{ailing.catalogue.find('fine').version}"):
        answer = get(ailing, f"/mcp/meta/{path}", 200)
        assert (answer.mimetype, answer.text) == ("text/html", read(ailing, f"/servers/{path}"))
    assert read_json(get(ailing, "/mcp/meta/fine.json"))["server"]["name"] == "fine"
    get(ailing, "/mcp/meta/absent", 404)


@pytest.mark.parametrize(
    ("name", "reason"), [("notes", "There is no folder"), ("empty", "It offers no tools, resources or prompts.")]
)
def test_a_server_that_cannot_do_its_work_is_not_green(ailing: Hub, name: str, reason: str) -> None:
    assert reason in Reader(html := read(ailing, f"/servers/{name}")).text
    assert 'class="jack ailing"' in html and 'aria-label="needs attention"' in html
    summary = next(row for row in read_json(ailing.client.get("/servers.json")) if row["name"] == name)
    assert summary["trouble"].lower().startswith(reason.lower().rstrip("."))


def test_a_server_that_works_has_no_trouble_and_lists_no_private_function(ailing: Hub) -> None:
    html = read(ailing, "/servers/fine")
    assert 'class="jack on"' in html
    assert "_private" not in html and "Not listed" not in html


def test_a_broken_server_shows_its_line_and_the_way_to_edit_it(ailing: Hub) -> None:
    html = read(ailing, "/servers/wrong")
    assert "Edit line 3" in html and "/servers/wrong/edit#L3" in links(html)
    assert "def f(:" in Reader(html).text


def test_a_search_in_a_server_needs_no_script(ailing: Hub) -> None:
    text = Reader(read(ailing, "/servers/fine?find=SKETCH+make")).text
    assert "draw" in text and "paint" not in text
    assert "No tool has these words." in Reader(read(ailing, "/servers/fine?find=absent")).text


def test_the_json_of_every_tab_has_the_source(ailing: Hub) -> None:
    for tab in ("", "/source", "/past", "/settings"):
        found = read_json(ailing.client.get(f"/servers/fine{tab}.json", headers=BROWSER))
        assert found["source"].startswith('"""Fine."""')


def test_home_begins_with_what_needs_attention_and_the_button_that_mends_it(ailing: Hub) -> None:
    """Issue 17, item 5."""
    html = read(ailing, "/")
    assert html.index("Needs attention") < html.index("Your servers") < html.index("Connect a client")
    assert {"/servers/wrong/edit#L3", "/servers/notes/settings#changes", "/servers#unserved"} <= links(html)
    assert "2 files are not served" in Reader(html).text


def test_a_file_that_is_not_served_says_why(ailing: Hub) -> None:
    text = Reader(read(ailing, "/servers")).text
    assert "Expected a name that ends with .json, .py or .sh." in text
    assert "fine.py is the server fine already" in text.replace("Fine.py", "fine.py")


def test_each_list_of_servers_is_on_a_page_once(ailing: Hub) -> None:
    for path in ("/mcp", "/servers", "/"):
        html = read(ailing, path)
        assert html.count('href="/servers/fine"') == 1, path
