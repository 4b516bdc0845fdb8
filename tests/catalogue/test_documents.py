"""A folder of Markdown as a server: three lines of JSON, read-only, in step with the disk."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.documents.search_results import MAX_CONTENT_BYTES
from tests.hubs import Hub
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "handbook"
    (folder / "guide").mkdir(parents=True)
    (folder / "README.md").write_text("# Hello\n\nAll about pumpkins.\n")
    (folder / "guide/soup one.mdx").write_text("---\ntitle: Soup\ntags: [food]\n---\nPumpkin soup.\n")
    (folder / "node_modules").mkdir()
    (folder / "node_modules/other.md").write_text("# Pumpkin of somebody else")
    return folder


@pytest.fixture
def hub(tmp_path: Path, folder: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, {"handbook.json": json.dumps({"kind": "documents", "root": str(folder)})})
    yield hub
    hub.close()


def done(hub: Hub, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = hub.call("handbook", tool, arguments)
    assert not answer.result.get("isError"), answer.text
    return dict(answer.result["structuredContent"])


def test_three_lines_of_json_serve_a_folder(hub: Hub, folder: Path) -> None:
    """It is listed, found, and read as tool and as resource; the folder is not written to."""
    before = sorted(folder.rglob("*"))
    assert [one["path"] for one in done(hub, "list_documents")["documents"]] == ["README.md", "guide/soup one.mdx"]
    assert [one["title"] for one in done(hub, "list_documents", folder="guide")["documents"]] == ["Soup"]
    found = done(hub, "search", query="soup")
    assert [one["path"] for one in found["results"]] == ["guide/soup one.mdx"]
    assert found["results"][0]["matches"] == [{"line": 5, "text": "Pumpkin **soup**."}]
    assert done(hub, "search", query="pumpkin")["total"] == 2
    assert done(hub, "get_document", path="guide/soup one.mdx")["metadata"] == {"title": "Soup", "tags": ["food"]}
    uri = "docs://handbook/guide/soup%20one.mdx"
    resources = hub.legacy("handbook", "resources/list").result["resources"]
    assert [one["uri"] for one in resources] == ["docs://handbook/README.md", uri]
    (content,) = hub.legacy("handbook", "resources/read", {"uri": uri}).result["contents"]
    assert content["text"].startswith("---\ntitle: Soup") and content["mimeType"] == "text/markdown"
    assert sorted(folder.rglob("*")) == before


def test_files_with_unusual_names_are_resources_and_the_others_are_counted(hub: Hub, folder: Path) -> None:
    """33.9: `?`, `#`, `%`, decomposed letters, capitals in the ending; a URI with a literal `?` works too."""
    names = ["why?.md", "C#.md", "100%25.md", unicodedata.normalize("NFD", "café.md"), "NOTES.MD"]
    done(hub, "list_documents")
    for name in names:
        (folder / name).write_text(f"# {name}", "utf-8")
    (folder / "a\u202eb.md").write_text("text")

    def listed() -> dict[str, Any]:
        return {one["name"]: one for one in hub.legacy("handbook", "resources/list").result["resources"]}

    until(lambda: listed().keys() >= set(names))
    resources = listed()
    for name in names:
        uris = [resources[name]["uri"], "docs://handbook/" + name]
        for uri in uris[: 1 if "%" in name or "#" in name else 2]:
            (content,) = hub.legacy("handbook", "resources/read", {"uri": uri}).result["contents"]
            assert content["text"] == f"# {name}", uri
        assert done(hub, "get_document", path=name)["content"] == f"# {name}"
    server = hub.catalogue.find("handbook")
    assert [one.reason for one in server.problems] == [
        "1 file or folder is not served; /servers/handbook/documents has the reason for each"
    ]


def test_every_tool_only_reads(hub: Hub) -> None:
    tools = hub.legacy("handbook", "tools/list").result["tools"]
    assert {tool["name"] for tool in tools} == {"list_documents", "search", "get_document"}
    assert all(tool["annotations"]["readOnlyHint"] and tool["outputSchema"] for tool in tools)


def test_a_change_of_the_folder_is_announced(hub: Hub, folder: Path) -> None:
    with hub.catalogue.store.bus.subscribe(["changed/handbook", "updated/handbook"]) as mailbox:
        (folder / "new.md").write_text("# New")
        until(lambda: (mailbox.get(1) or ("",))[0] == "changed/handbook", "a new document")
        (folder / "README.md").write_text("# Other")
        until(lambda: mailbox.get(1) == ("updated/handbook", b"docs://handbook/README.md"), "a changed document")
    until(lambda: len(hub.legacy("handbook", "resources/list").result["resources"]) == 3, "the list with it")


@pytest.mark.parametrize("path", ["../secret.md", "/etc/passwd", "guide/../../secret.md", "a.txt"])
def test_nothing_outside_the_folder_is_read(hub: Hub, tmp_path: Path, path: str) -> None:
    """JANE-C5."""
    (tmp_path / "secret.md").write_text("secret")
    answer = hub.call("handbook", "get_document", {"path": path})
    assert answer.result["isError"] is True and "secret\n" not in answer.text
    assert hub.legacy("handbook", "resources/read", {"uri": "docs://handbook/..%2fsecret.md"}).error["code"] == -32002


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "root: expected the folder"),
        ({"root": "docs"}, "root: expected the folder of the documents as /... or ~/..."),
        ({"root": "/x", "skills": {}}, "skills: not allowed for a folder of documents; allowed: "),
        ({"root": 5}, "root: expected text"),
    ],
)
def test_a_definition_without_a_folder_is_refused_with_the_reason(
    tmp_path: Path, more: dict[str, Any], expected: str
) -> None:
    hub = Hub(tmp_path, {"handbook.json": json.dumps({"kind": "documents", **more})})
    try:
        server = next(one for one in hub.catalogue.all() if one.name == "handbook")
        assert expected in (server.broken or "")
    finally:
        hub.close()


def test_a_folder_that_is_not_there_yet_is_empty_until_it_is(tmp_path: Path) -> None:
    later = tmp_path / "later"
    hub = Hub(tmp_path, {"later.json": json.dumps({"kind": "documents", "root": str(later)})})
    try:
        for tool, arguments in (("list_documents", {}), ("search", {"query": "a"})):
            said = hub.call("later", tool, arguments).text
            assert "The folder of this server is not there now" in said and str(later) not in said
        assert hub.call("later", "list_documents", {}).text.startswith("There are no documents yet. ")
        later.mkdir()
        (later / "a.md").write_text("# A")
        until(lambda: hub.call("later", "search", {"query": "*"}).result["structuredContent"]["total"], "a document")
        assert "is not there" not in hub.call("later", "list_documents", {}).text
    finally:
        hub.close()


def test_a_search_gives_only_so_much_text(hub: Hub, folder: Path) -> None:
    """An answer does not contain the texts of a whole folder."""
    for number in range(3):
        (folder / f"long{number}.md").write_text("word " * (MAX_CONTENT_BYTES // 10 - 10))
    until(lambda: len(done(hub, "list_documents")["documents"]) == 5, "the documents to be seen")
    found = done(hub, "search", query="*", includeContent=True)
    assert sum(len(one.get("content", "")) for one in found["results"]) <= MAX_CONTENT_BYTES
    assert sorted(one["path"] for one in found["results"] if "content" not in one) == ["long2.md"]
    assert len(found["results"]) == 5


def test_a_file_in_the_place_of_the_folder_is_reported_as_a_file(tmp_path: Path) -> None:
    root = tmp_path / "a.md"
    root.touch()
    hub = Hub(tmp_path, {"handbook.json": json.dumps({"kind": "documents", "root": str(root)})})
    assert [one.reason for one in hub.catalogue.find("handbook").problems] == [
        f"{root} is a file: write the folder that has it"
    ]
    hub.close()


def test_a_missing_folder_is_reported_on_the_page(tmp_path: Path) -> None:
    """An empty library and a wrong path look different."""
    root = tmp_path / "misspelt"
    hub = Hub(tmp_path, {"handbook.json": json.dumps({"kind": "documents", "root": str(root)})})
    assert [one.reason for one in hub.catalogue.find("handbook").problems] == [f"there is no folder {root}"]
    root.mkdir()
    (root / "a.md").write_text("# A\n")
    until(lambda: not hub.catalogue.find("handbook").problems, "the folder is found")
    hub.close()


def test_a_folder_that_cannot_be_read_does_not_prevent_the_start(tmp_path: Path) -> None:
    """T1.8: a forbidden folder raises like this one, whose name is too long."""
    root = f"/{'x' * 300}"
    hub = Hub(tmp_path, {"handbook.json": json.dumps({"kind": "documents", "root": root}), "ok.sh": "echo hi\n"})
    (problem,) = hub.catalogue.find("handbook").problems
    assert problem.reason == f"the folder {root} cannot be reached: File name too long"
    hub.close()
