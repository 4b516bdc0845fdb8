"""Pages use the words of their readers: what a server is and does, not how the hub is built."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.hubs import Hub
from tests.web.browsing import read
from tests.wire.hostile import Reader

QUIET = {
    "kind": "static",
    "prompts": {"plan": {"messages": [{"content": "Plan."}]}},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "calm.py": 'def wait() -> str:\n    """Wait."""\n    return "done"\n',
        "calm.mcp.json": json.dumps(
            {"tools": {"wait": {"annotations": {"openWorldHint": False, "destructiveHint": False}}}}
        ),
        "far.json": json.dumps({"kind": "upstream", "url": "http://127.0.0.1:1/mcp"}),
        "quiet.json": json.dumps(QUIET),
    }
    hub = Hub(tmp_path_factory.mktemp("words"), files).log_in()
    yield hub
    hub.close()


def words(hub: Hub, path: str) -> str:
    """The words of a page; a document that it shows for editing has its own."""
    html = re.sub(r"<textarea.*?</textarea>", "", read(hub, path), flags=re.S)
    return " ".join(Reader(html).text.split())


@pytest.mark.parametrize("path", ["/", "/servers", "/servers/echo/settings", "/servers/far/settings"])
def test_a_server_is_built_in_or_mounted(hub: Hub, path: str) -> None:
    text = words(hub, path)
    assert not re.search(r"\bboot image\b|\bupstream\b", text)
    assert "built in" in text or "mounted" in text


def test_hints_of_a_tool_are_words(hub: Hub) -> None:
    text = words(hub, "/servers/calm")
    assert "no outside access" in text and "not destructive" in text


@pytest.mark.parametrize("path", ["/servers", "/history", "/variables"])
def test_a_table_ends_with_content_identifiers(hub: Hub, path: str) -> None:
    [*rows] = re.findall(r"<tr>(.*?)</tr>", read(hub, path).partition("<tbody>")[2], flags=re.S)
    shown = [re.sub(r"<[^>]+>", " ", row).split() for row in rows]
    assert any("bafk" in word for row in shown for word in row)
    for row in shown:
        assert not row[0].startswith("bafk")
        assert not any(word.startswith("bafk") for word in row[:-1] if path == "/servers")


def test_the_settings_of_a_server_have_content_identifiers_under_details(hub: Hub) -> None:
    before, _, after = read(hub, "/servers/calm/settings").partition('id="main"')[2].partition("<summary>Details")
    assert "/cid/bafk" not in before and "/cid/bafk" in after
    assert '<button class="quiet" name="do" value="off">' in after


def test_a_hub_without_access_rules_says_who_may_use_it(hub: Hub) -> None:
    assert "No access rules yet: everyone who reaches this hub may use every server." in words(hub, "/access")
    assert "Texts shared by all servers. Not environment variables, and not secrets." in words(hub, "/variables")


def test_a_content_is_named_by_what_it_is_and_its_identifier_comes_later(hub: Hub) -> None:
    server = next(one for one in hub.catalogue.all() if one.name == "calm")
    html = read(hub, f"/cid/{server.definition}")
    assert re.search(r"<h1>(.*?)</h1>", html)[1] == "Python"  # type: ignore[index]
    assert "bafk" not in html.partition("<details")[0].partition("<h1>")[2].replace(f"/cid/{server.definition}", "")


def test_the_history_says_who_changed_what_in_words(hub: Hub) -> None:
    text = words(hub, "/history")
    assert "added server calm" in text and "a file in servers/" in text
    assert "the start of the hub" in text
    assert not re.search(r"servers/calm\b|boot image default", text)


@pytest.mark.parametrize("path", ["/history", "/history/names", "/variables/mcps", "/servers/calm/past"])
def test_no_identifier_stands_before_the_words_of_a_row(hub: Hub, path: str) -> None:
    [*rows] = re.findall(r"<tr>(.*?)</tr>", read(hub, path).partition("<tbody>")[2], flags=re.S)
    shown = [re.sub(r"<details>.*</details>|<[^>]+>", " ", row, flags=re.S).split() for row in rows]
    assert rows
    for row in shown:
        assert not any(word.startswith("bafk") for word in row[:-1])
