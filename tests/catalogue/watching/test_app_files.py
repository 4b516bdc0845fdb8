"""Apps that a drop-in names by a path (SEP-1865): the HTML file beside it is served with its server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.cid import cid_of
from patchbay.stores.memory import MemoryStore
from tests.catalogue.watching.test_folder import live

SHOW = 'def show() -> str:\n    """Show it."""\n    return "shown"\n\n\ndef other() -> str:\n    return "other"\n'
WITH_UI = f'UI = {{"show": "card.html"}}\n\n\n{SHOW}'
HTML = "text/html;profile=mcp-app"
POLICY = {"csp": {"connectDomains": ["https://api.example"]}, "permissions": {"camera": {}}}
Until = Callable[[Callable[[], Any]], Any]


def page(catalogue: Any, server: Server, uri: str = "ui://card.html") -> str:
    """The HTML of an app, as the store has it."""
    text: str = catalogue.store.blobs.get(server.resources[uri].target["cid"]).decode()
    return text


def is_broken(catalogue: Any, name: str) -> bool:
    return any(one.name == name and one.broken for one in catalogue.all())


def test_a_python_definition_gives_a_tool_an_app_by_the_name_of_a_file(bench: Any, until: Until) -> None:
    """37.2: a changed file is a new version of the server."""
    bench.drop("card.html", "<p>one")
    bench.drop("board.py", WITH_UI)
    catalogue = live(bench)
    server = catalogue.find("board")
    assert list(server.tools) == ["show", "other"]
    assert server.tools["show"].wire["_meta"] == {"ui": {"resourceUri": "ui://card.html"}}
    assert "_meta" not in server.tools["other"].wire
    resource = server.resources["ui://card.html"].wire
    assert (resource["mimeType"], resource["name"]) == (HTML, "card.html")
    assert page(catalogue, server) == "<p>one"
    bench.drop("card.html", "<p>two")
    until(lambda: page(catalogue, catalogue.find("board")) == "<p>two")
    assert catalogue.find("board").version != server.version


def test_a_configuration_gives_a_tool_an_app_with_its_policy(bench: Any) -> None:
    """37.2."""
    bench.drop("card.html", "<p>one")
    bench.drop("board.py", SHOW)
    tools = {"show": {"ui": "card.html", "_meta": {"ui": {"prefersBorder": True}, "more": 1}}}
    resources = {"card.html": {"title": "Card", "_meta": {"ui": POLICY}}}
    bench.drop("board.mcp.json", {"auto_discover": True, "tools": tools, "resources": resources})
    server = (catalogue := live(bench)).find("board")
    assert server.tools["show"].wire["_meta"] == {
        "ui": {"prefersBorder": True, "resourceUri": "ui://card.html"},
        "more": 1,
    }
    assert server.tools["show"].wire["description"] == "Show it." and "other" in server.tools
    wire = server.resources["ui://card.html"].wire
    assert (wire["title"], wire["mimeType"], wire["_meta"]) == ("Card", HTML, {"ui": POLICY})
    assert page(catalogue, server) == "<p>one"


def test_an_app_of_a_definition_has_the_policy_of_its_configuration(bench: Any) -> None:
    """37.2: the file beside the definition comes before a source in the configuration."""
    (bench.settings.servers / "pages").mkdir()
    bench.drop("pages/card.html", "<p>file")
    bench.drop("board.py", WITH_UI.replace("card.html", "pages/card.html"))
    given = {"uri": "ui://other.html", "text": "<p>text", "_meta": {"ui": POLICY}}
    bench.drop("board.mcp.json", {"tools": {"show": {"title": "Show"}}, "resources": {"pages.card.html": given}})
    server = (catalogue := live(bench)).find("board")
    assert server.tools["show"].wire["_meta"] == {"ui": {"resourceUri": "ui://pages/card.html"}}
    assert server.resources["ui://pages/card.html"].wire["_meta"] == {"ui": POLICY}
    assert page(catalogue, server, "ui://pages/card.html") == "<p>file"


def test_a_server_is_served_once_the_file_of_its_app_is_there(bench: Any, until: Until) -> None:
    """37.2."""
    bench.drop("board.py", WITH_UI)
    catalogue = live(bench)
    folder = WatchedFolder(bench.store, bench.settings.servers)
    folder.start()
    assert folder.refused["board.py"] == (
        "UI: expected an HTML file below the folder of the servers; there is no file card.html"
    )
    bench.drop("card.html", "<p>one")
    until(lambda: any(one.name == "board" for one in catalogue.all()))


@pytest.mark.parametrize("path", ["../card.html", "/etc/card.html", "card.txt", ".card.html", "a//b.html", "", 7])
def test_a_path_that_is_none_of_a_file_below_the_folder_is_refused(tmp_path: Path, path: Any) -> None:
    """37.2."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "card.html").write_text("secret")
    (tmp_path / "servers" / "board.py").write_text(SHOW)
    (tmp_path / "servers" / "board.mcp.json").write_text(json.dumps({"tools": {"show": {"ui": path}}}))
    folder = WatchedFolder(MemoryStore(), tmp_path / "servers")
    folder.start()
    assert "tools.show.ui: expected the path of an HTML file" in folder.refused["board.mcp.json"]


def test_a_link_out_of_the_folder_is_no_app(tmp_path: Path) -> None:
    """37.2."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / "servers" / "card.html").symlink_to(tmp_path / "secret.html")
    (tmp_path / "servers" / "board.py").write_text(WITH_UI)
    folder = WatchedFolder(MemoryStore(), tmp_path / "servers")
    folder.start()
    assert "stays in the folder of the servers" in folder.refused["board.py"]


def test_a_wrong_entry_is_a_problem_and_leaves_the_tools(bench: Any) -> None:
    """37.2."""
    bench.drop(
        "board.py", f'PATH = "card.html"\nUI = {{"show": PATH, "gone": "card.html", 7: "card.html"}}\n\n\n{SHOW}'
    )
    bench.drop("card.html", "<p>one")
    server = live(bench).find("board")
    assert list(server.tools) == ["show", "other"] and "_meta" not in server.tools["show"].wire
    assert [(each.where, each.line) for each in server.problems] == [("UI", 2), ("UI", 2), ("UI", 2)]
    assert "there is no tool of the function 'gone'" in " ".join(each.reason for each in server.problems)


@pytest.mark.parametrize("has_configuration", [False, True])
def test_an_edit_on_a_page_leaves_the_app_and_the_files_of_the_author(tmp_path: Path, has_configuration: bool) -> None:
    """37.2: the stored configuration has the app, the file of the author has its path."""
    store, config = MemoryStore(), b'{"auto_discover": true, "tools": {"other": {"ui": "card.html"}}}'
    (tmp_path / "card.html").write_text("<p>one")
    (tmp_path / "board.py").write_text(WITH_UI)
    if has_configuration:
        (tmp_path / "board.mcp.json").write_bytes(config)
    folder = WatchedFolder(store, tmp_path)
    folder.start()
    changed = WITH_UI.replace('"shown"', '"changed"').encode()
    ServerEditor(store, tmp_path).definition("board", "python", changed, cid_of(WITH_UI.encode()), "ada", "better")
    assert (tmp_path / "board.py").read_bytes() == changed
    assert (tmp_path / "board.mcp.json").exists() == has_configuration
    if has_configuration:
        assert (tmp_path / "board.mcp.json").read_bytes() == config
    before = store.names.all()
    folder.start()
    assert store.names.all() == before
