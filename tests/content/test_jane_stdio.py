"""Jane on a pipe, as Claude Desktop and Claude Code start it: 2024-11-05 exactly as its document says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.content.jane import Pipe, spoken
from tests.waiting import until

pytestmark = [pytest.mark.process]

SPEC = {"type": "spec", "project": "hub", "path": "rooms.md"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jane")


@pytest.fixture(scope="module")
def jane(folder: Path) -> Iterator[Pipe]:
    with spoken(folder) as pipe:
        pipe.open()
        yield pipe


def test_the_handshake_says_what_the_document_says(tmp_path: Path) -> None:
    """JANE-1, JANE-2, JANE-3, JANE-19 (JANE-C1, JANE-C11): and the connection ends cleanly."""
    with spoken(tmp_path) as pipe:
        early = pipe.call("list_specs")
        assert early["error"]["code"] == -32002, "nothing is answered before the handshake"
        found = pipe.open()
        assert found["protocolVersion"] == "2024-11-05"
        assert found["capabilities"] == {
            "tools": {"listChanged": False},
            "resources": {"subscribe": False, "listChanged": False},
        }
        assert found["serverInfo"] == {
            "name": "jane",
            "version": "1.0.0",
            "description": "Knowledge management server for stdlib and specs",
        }
        assert pipe.call("create_document", **SPEC, title="Rooms", content="text")["result"]["isError"] is False
        assert pipe.ask("ping")["result"] == {}
        assert pipe.notes == [], "no notification that the capabilities do not promise"
        assert pipe.end() == (0, b"")
    assert (tmp_path / "library/specs/hub/rooms.md").exists()


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_newer_revisions_are_spoken_too_and_tell_of_changes(version: str, tmp_path: Path) -> None:
    """JANE-26 (JANE-C1)."""
    with spoken(tmp_path) as pipe:
        found = pipe.open(version)
        assert found["protocolVersion"] == version
        assert found["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
        assert pipe.ask("resources/subscribe", uri="spec://hub/rooms.md")["result"] == {}
        pipe.call("create_document", **SPEC, title="Rooms", content="text")
        pipe.call("update_document", **SPEC, content="other")
        is_updated = {"notifications/resources/list_changed", "notifications/resources/updated"}
        while {note["method"] for note in pipe.notes} != is_updated:
            pipe.ask("ping")


def refused(answer: dict[str, Any], code: int) -> str:
    """The details of an error in the form of the document (JANE-14)."""
    assert answer["jsonrpc"] == "2.0" and set(answer["error"]) == {"code", "message", "data"}, answer
    assert answer["error"]["code"] == code
    details = answer["error"]["data"]["details"]
    return details if isinstance(details, str) else "; ".join(f"{one['path']}: {one['message']}" for one in details)


def test_every_error_has_its_code_a_message_and_details(jane: Pipe, folder: Path) -> None:
    """JANE-14, JANE-20."""
    assert refused(jane.raw(b"{no json"), -32700)
    assert refused(jane.raw(b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}'), -32600)
    assert "nothing/here" in refused(jane.ask("nothing/here"), -32601)
    assert "language" in refused(jane.call("get_stdlib", path="a.md"), -32602)
    jane.call("create_document", type="spec", project="broken", path="bytes.md", title="x", content="y")
    (folder / "library/specs/broken/bytes.md").write_bytes(b"\xff")
    assert "not UTF-8 text" in refused(jane.ask("resources/read", uri="spec://broken/bytes.md"), -32000)
    failed = jane.ask("prompts/get", name="summarize", arguments={"uri": "spec://nowhere/a.md"})
    assert "spec://nowhere/a.md" in refused(failed, -32603)


def test_a_resource_that_is_not_there_or_of_another_scheme_is_an_error(jane: Pipe) -> None:
    """JANE-13 (JANE-C9, X-4)."""
    for uri in (
        "http://hub/rooms.md",
        "docs://hub/a.md",
        "spec:rooms.md",
        "spec://hub/none.md",
        "spec://hub/..%2fa.md",
    ):
        assert refused(jane.ask("resources/read", uri=uri), -32002), uri


@pytest.mark.parametrize(
    ("tool", "arguments", "details"),
    [
        ("get_stdlib", {"language": "", "path": "a.md"}, "language"),
        ("get_stdlib", {"language": "python", "path": ""}, "path"),
        ("get_stdlib", {"language": 5, "path": "a.md"}, "language"),
        ("get_spec", {"path": "a.md"}, "project"),
        ("get_spec", {"project": "hub"}, "path"),
        ("list_stdlibs", {"language": []}, "language"),
        ("list_specs", {"project": ""}, "project"),
        ("search", {}, "query"),
        ("search", {"query": "x", "type": "book"}, "type"),
        ("search", {"query": "x", "includeContent": "yes"}, "includeContent"),
        (
            "create_document",
            {"type": "spec", "path": "a.md", "title": "A", "content": ""},
            "Project parameter is required",
        ),
        (
            "create_document",
            {"type": "stdlib", "path": "a.md", "title": "A", "content": ""},
            "Language parameter is required",
        ),
        ("create_document", {**SPEC, "content": ""}, "title"),
        ("create_document", {**SPEC, "title": "A"}, "content"),
        ("create_document", {**SPEC, "title": "A", "content": "", "tags": "x"}, "tags"),
        ("create_document", {**SPEC, "path": "../a.md", "title": "A", "content": ""}, "not '..'"),
        ("create_document", {**SPEC, "path": "a.txt", "title": "A", "content": ""}, "ends in .md"),
        ("update_document", {"path": "a.md"}, "type"),
        ("update_document", {"type": "spec", "path": "a.md", "content": "x"}, "Project parameter is required"),
        ("update_document", {**SPEC, "updateMeta": 1}, "updateMeta"),
    ],
)
def test_wrong_arguments_are_invalid_params_that_say_which(
    jane: Pipe, tool: str, arguments: dict[str, Any], details: str
) -> None:
    """JANE-15, JANE-4, JANE-5, JANE-20 (X-2, JANE-C2)."""
    assert details in refused(jane.call(tool, **arguments), -32602)


def test_a_missing_document_is_a_result_with_the_reason(jane: Pipe) -> None:
    """JANE-4, JANE-5, JANE-16 (X-20): not found is the tool's own failure, with what is near."""
    jane.call("create_document", type="spec", project="near", path="rooms.md", title="Rooms", content="text")
    for arguments, said in (
        ({"project": "near", "path": "room.md"}, "did you mean rooms.md"),
        ({"project": "no", "path": "a.md"}, "near"),
    ):
        result = jane.call("get_spec", **arguments)["result"]
        assert result["isError"] is True and said in result["content"][0]["text"]


def test_subscriptions_are_not_there_where_the_capabilities_deny_them(jane: Pipe) -> None:
    """JANE-2."""
    assert refused(jane.ask("resources/subscribe", uri="spec://hub/rooms.md"), -32601)


def test_a_failure_of_the_file_system_reaches_the_caller_and_the_log(tmp_path: Path) -> None:
    """JANE-4, JANE-16: the details go to standard error, never to standard output."""
    (tmp_path / "library/specs/hub").mkdir(parents=True)
    (tmp_path / "library/specs/hub/a\u202eb.md").write_text("a name that misleads")
    os.mkfifo(tmp_path / "library/specs/hub/pipe.md")
    with spoken(tmp_path) as pipe:
        pipe.open()
        assert pipe.call("list_specs")["result"]["content"][0]["text"] == "There are no projects yet."
        failed = pipe.call("get_spec", project="hub", path="pipe.md")["result"]
        assert failed["isError"] is True and "no documents" in failed["content"][0]["text"]
        assert pipe.end()[0] == 0
    assert "specs/hub/a\\\\u202eb.md" in (tmp_path / "log").read_text()


def test_failing_files_have_a_short_message_and_a_detailed_log(tmp_path: Path) -> None:
    """JANE-16: the whole row: the caller reads a sentence without folders, standard error has the details."""
    folder = tmp_path / "library/specs/hub"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text("# Good\n\npumpkin")
    (folder / "bytes.md").write_bytes(b"ok\n\xff")
    (folder / "large.md").write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    (folder / "a\u202eb.md").write_text("a name that misleads")
    with spoken(tmp_path) as pipe:
        pipe.open()
        kind = [
            ("bytes.md", "specs/hub/bytes.md is not UTF-8 text: byte 0xff in line 2"),
            ("large.md", "specs/hub/large.md has 8388609 bytes; expected at most 8388608"),
        ]
        found = pipe.call("search", query="pumpkin")["result"]["content"][0]["text"]
        assert "spec://hub/good.md" in found, "what cannot be read keeps nothing else from being found"
        for path, sentence in [*kind, ("none.md", "there is no document none.md of the project hub")]:
            failed = pipe.call("get_spec", project="hub", path=path)["result"]
            assert failed["isError"] is True and sentence in failed["content"][0]["text"]
            assert str(tmp_path) not in failed["content"][0]["text"]
        assert pipe.end()[0] == 0
    log = (tmp_path / "log").read_text()
    assert "specs/hub/a\\\\u202eb.md" in log
    for path, detail in (("bytes.md", "UnicodeDecodeError"), ("large.md", "8388609 bytes")):
        line = next(line for line in log.splitlines() if f"specs/hub/{path}" in line and "failed at" in line)
        assert detail in line and str(tmp_path / "library") in line


def test_a_subscriber_hears_of_its_document_and_of_no_other(tmp_path: Path) -> None:
    """JANE-24: the whole row: subscribe, hear of edits by tools and on the disk, unsubscribe."""
    uri, updated = "spec://hub/rooms.md", "notifications/resources/updated"
    with spoken(tmp_path) as pipe:
        pipe.open("2025-11-25")
        for path in ("rooms.md", "other.md"):
            pipe.call("create_document", **{**SPEC, "path": path}, title="Rooms", content="text")
        assert pipe.ask("resources/subscribe", uri=uri)["result"] == {}

        def wait_for_update(count: int) -> None:
            def is_updated() -> bool:
                pipe.ask("ping")
                return [one["method"] for one in pipe.notes].count(updated) > count

            until(is_updated, "a note of an update")

        pipe.call("update_document", **{**SPEC, "path": "other.md"}, content="of no interest")
        pipe.call("update_document", **SPEC, content="by a tool")
        wait_for_update(0)
        told = [one["method"] for one in pipe.notes].count(updated)
        file = tmp_path / "library/specs/hub/rooms.md"
        file.write_text(file.read_text().replace("by a tool", "by an editor"))
        wait_for_update(told)
        assert {one["params"]["uri"] for one in pipe.notes if one["method"] == updated} == {uri}
        assert pipe.ask("resources/unsubscribe", uri=uri)["result"] == {}
        assert pipe.ask("resources/subscribe", uri="spec://hub/other.md")["result"] == {}
        pipe.notes.clear()
        pipe.call("update_document", **SPEC, content="after the end")
        pipe.call("update_document", **{**SPEC, "path": "other.md"}, content="the other one")
        wait_for_update(0)
        uris = {one["params"]["uri"] for one in pipe.notes if one["method"] == updated}
        assert uris == {"spec://hub/other.md"}


def test_a_library_is_used_in_the_order_of_the_document(jane: Pipe) -> None:
    """JANE-21, JANE-6 to JANE-12: discover, search, retrieve, manage; 2024-11-05 has text alone."""
    created = jane.call(
        "create_document",
        type="stdlib",
        language="python",
        path="lists/map.md",
        title="Map",
        content="Apply a function.\n",
        tags=["iteration"],
    )["result"]
    assert list(created) == ["content", "isError"] and created["isError"] is False
    said = [
        jane.call(tool, **arguments)["result"]["content"][0]["text"]
        for tool, arguments in (
            ("list_stdlibs", {}),
            ("list_stdlibs", {"language": "python"}),
            ("search", {"query": "apply", "language": "python"}),
            ("get_stdlib", {"language": "python", "path": "lists/map.md"}),
        )
    ]
    assert said[0] == "- python (1)" and said[1] == "- Map (lists/map.md)"
    assert "stdlib://python/lists/map.md (score " in said[2] and ": **Apply** a function." in said[2]
    assert said[3] == "# Map\n\nApply a function.\n"
    read = jane.ask("resources/read", uri="stdlib://python/lists%2Fmap.md")["result"]["contents"][0]
    assert read["mimeType"] == "text/markdown" and read["text"].startswith("---\ntitle: Map\n")
    tools = jane.ask("tools/list")["result"]["tools"]
    assert len(tools) == 7 and all(set(tool) == {"name", "description", "inputSchema"} for tool in tools)
