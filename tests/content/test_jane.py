"""The reference server `jane` in a hub: schemas, structure, changes, completion, summaries, what is off by default."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.documents.collection import Library
from patchbay.documents.index import FolderIndex
from tests.checkout import ROOT
from tests.hubs import MODERN, Hub
from tests.waiting import BOUND, until

READING = {"get_stdlib", "get_spec", "list_stdlibs", "list_specs", "search"}
WRITING = {"create_document", "update_document"}
CREATE = {"type", "language", "project", "path", "title", "description", "author", "tags", "content"}
SCHEMAS = {
    "get_stdlib": ({"language", "path"}, ["language", "path"]),
    "get_spec": ({"project", "path"}, ["project", "path"]),
    "list_stdlibs": ({"language"}, []),
    "list_specs": ({"project"}, []),
    "search": ({"query", "type", "language", "project", "includeContent", "limit", "offset"}, ["query"]),
    "create_document": (CREATE, ["type", "path", "title", "content"]),
    "update_document": (CREATE | {"updateMeta", "expected_cid"}, ["type", "path"]),
}
"""Names and required names as Jane's document gives them, and `limit`, `offset` and `expected_cid`."""

AT = {"type": "spec", "project": "hub", "path": "a/rooms.md"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, jane_dir=str(tmp_path / "library"))
    yield hub
    hub.close()


def done(hub: Hub, tool: str, arguments: dict[str, Any], server: str = "jane") -> dict[str, Any]:
    answer = hub.call(server, tool, arguments)
    assert not answer.result.get("isError"), answer.text
    return dict(answer.result["structuredContent"])


def test_the_seven_tools_have_the_schemas_of_the_document(hub: Hub) -> None:
    """JANE-4 to JANE-10 by name (JANE-20), JANE-25: titles, hints, output schemas; strings that may not be empty."""
    tools = {tool["name"]: tool for tool in hub.legacy("jane", "tools/list").result["tools"]}
    assert set(tools) == READING | WRITING == set(SCHEMAS)
    for name, tool in tools.items():
        properties, required = SCHEMAS[name]
        schema = tool["inputSchema"]
        assert (set(schema["properties"]), schema.get("required", [])) == (properties, required), name
        assert tool["title"] and tool["description"] and tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["readOnlyHint"] is (name in READING), name
        assert tool["annotations"]["openWorldHint"] is False
        for one in {"language", "project", "path"} & properties:
            assert schema["properties"][one]["minLength"] == 1
    assert tools["update_document"]["inputSchema"]["properties"]["updateMeta"]["default"] is True
    assert tools["update_document"]["annotations"]["idempotentHint"] is True


@pytest.mark.parametrize(
    ("type", "group", "get", "lists"),
    [("stdlib", "language", "get_stdlib", "list_stdlibs"), ("spec", "project", "get_spec", "list_specs")],
)
def test_documents_are_made_listed_found_read_and_changed(
    hub: Hub, type: str, group: str, get: str, lists: str
) -> None:
    """JANE-4, JANE-5, JANE-6, JANE-7, JANE-8, JANE-9, JANE-10, JANE-11, JANE-12, JANE-17, JANE-21."""
    place = {group: "one", "path": "deep/er/doc.md"}
    made = done(
        hub,
        "create_document",
        {"type": type, **place, "title": "Gourds", "content": "All about pumpkins.\n", "tags": ["food"]},
    )
    uri = f"{type}://one/deep/er/doc.md"
    assert made["uri"] == uri and made["metadata"]["tags"] == ["food"] and made["createdAt"] == made["updatedAt"]
    plural = {"language": "languages", "project": "projects"}[group]
    assert done(hub, lists, {})[plural] == [{group: "one", "documents": 1}]
    assert [one["path"] for one in done(hub, lists, {group: "one"})["documents"]] == ["deep/er/doc.md"]
    (hit,) = done(hub, "search", {"query": "pumpkin", group: "one", "includeContent": True})["results"]
    assert hit["uri"] == uri and hit["matches"][0]["text"] == "All about **pumpkins**." and hit["score"] >= 0
    assert hit["content"] == "All about pumpkins.\n"
    got = hub.call("jane", get, place)
    assert got.text == "# Gourds\n\nAll about pumpkins.\n" and got.result["structuredContent"]["cid"] == made["cid"]
    changed = done(hub, "update_document", {"type": type, **place, "title": "Squash", "expected_cid": made["cid"]})
    assert changed["metadata"]["tags"] == ["food"] and changed["title"] == "Squash"
    (content,) = hub.legacy("jane", "resources/read", {"uri": uri}).result["contents"]
    assert content["mimeType"] == "text/markdown" and content["text"].startswith("---\ntitle: Squash\n")
    assert content["_meta"]["metadata"]["title"] == "Squash" and content["_meta"]["cid"] == changed["cid"]
    stale = hub.call("jane", "update_document", {"type": type, **place, "title": "x", "expected_cid": made["cid"]})
    assert stale.result["isError"] is True and changed["cid"] in stale.text


def test_metadata_is_left_alone_where_that_is_wanted(hub: Hub) -> None:
    """JANE-10 (JANE-C3, JANE-C4): updateMeta false ignores all metadata; nothing to do is an error."""
    done(hub, "create_document", {**AT, "title": "Rooms", "author": "ann", "content": "one"})
    kept = done(hub, "update_document", {**AT, "title": "No", "author": "no", "content": "two", "updateMeta": False})
    assert (kept["title"], kept["author"]) == ("Rooms", "ann")
    for arguments in ({**AT}, {**AT, "title": "No", "updateMeta": False}):
        nothing = hub.call("jane", "update_document", arguments)
        assert nothing.result["isError"] is True and "nothing to update" in nothing.text


def test_filters_that_exclude_each_other_find_nothing(hub: Hub) -> None:
    """JANE-8 (A-F3)."""
    done(hub, "create_document", {**AT, "title": "Rooms", "content": "pumpkin"})
    for more in (
        {"language": "python"},
        {"type": "stdlib"},
        {"type": "stdlib", "project": "hub"},
        {"language": "x", "project": "hub"},
    ):
        assert done(hub, "search", {"query": "pumpkin", **more})["results"] == [], more
    assert len(done(hub, "search", {"query": "*", "type": "spec"})["results"]) == 1


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_wrong_arguments_are_the_tools_own_failure_in_newer_revisions(hub: Hub, version: str) -> None:
    """JANE-15, JANE-26 (X-2)."""
    for arguments in (
        {"type": "spec", "path": "a.md", "title": "A", "content": ""},
        {"type": "spec", "project": "p", "path": "../a.md", "title": "A", "content": ""},
    ):
        answer = hub.call("jane", "create_document", arguments, version)
        assert answer.result["isError"] is True and ("required" in answer.text or "'..'" in answer.text)


def test_documents_are_listed_and_completed(hub: Hub) -> None:
    """JANE-11, JANE-12, JANE-20 (JANE-C7, A-F6): two templates as the document shows them."""
    done(hub, "create_document", {**AT, "title": "Rooms", "description": "Where people meet", "content": ""})
    templates = hub.legacy("jane", "resources/templates/list").result["resourceTemplates"]
    assert {one["uriTemplate"] for one in templates} == {"stdlib://{language}/{path}", "spec://{project}/{path}"}
    (entry,) = until(lambda: hub.legacy("jane", "resources/list").result["resources"], "the list of documents")
    assert (entry["uri"], entry["title"], entry["mimeType"]) == ("spec://hub/a/rooms.md", "Rooms", "text/markdown")
    assert entry["description"] == "Where people meet" and entry["annotations"]["lastModified"].endswith("Z")

    def completed(name: str, value: str, **known: str) -> list[str]:
        params = {
            "ref": {"type": "ref/resource", "uri": "spec://{project}/{path}"},
            "argument": {"name": name, "value": value},
        }
        return list(
            hub.legacy("jane", "completion/complete", {**params, "context": {"arguments": known}}).result["completion"][
                "values"
            ]
        )

    assert completed("project", "h") == ["hub"] and completed("project", "x") == []
    assert completed("path", "", project="hub") == ["a/rooms.md"] and completed("path", "", project="no") == []


def test_changes_by_tools_and_on_disk_reach_who_listens(hub: Hub, tmp_path: Path) -> None:
    """JANE-24: updates of a document that is subscribed to, and changes of the list."""
    done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"})
    until(lambda: hub.legacy("jane", "resources/list").result["resources"], "the list of documents")
    with hub.catalogue.store.bus.subscribe(["updated/jane", "changed/jane"]) as mailbox:

        def wait_for(*wanted: str) -> None:
            missing = set(wanted)

            def took() -> bool:
                got = mailbox.get(0.2)
                missing.difference_update([got[0]] if got else [])
                return not missing

            until(took, f"{wanted}")

        done(hub, "update_document", {**AT, "content": "two"})
        wait_for("updated/jane")
        file = tmp_path / "library/specs/hub/a/rooms.md"
        file.write_text(file.read_text().replace("two", "three"))
        wait_for("updated/jane")
        file.unlink()
        wait_for("updated/jane", "changed/jane")
    until(lambda: not hub.legacy("jane", "resources/list").result["resources"], "the list without it")


def test_indexing_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JANE-23, JANE-18: a search during the first index waits, and reports the progress of the index."""
    reported = threading.Event()
    index_files, ready = FolderIndex._index_files, Library.ready

    def index_after_report(self: FolderIndex, batch: list[str]) -> Any:
        assert reported.wait(BOUND)
        return index_files(self, batch)

    def ready_with_report(self: Library, seconds: float, progress: Callable[[int, int], None]) -> bool:
        def report(done: int, total: int) -> None:
            progress(done, total)
            reported.set()

        return ready(self, seconds, report)

    monkeypatch.setattr(FolderIndex, "_index_files", index_after_report)
    monkeypatch.setattr(Library, "ready", ready_with_report)
    for number in range(300):
        path = tmp_path / f"library/specs/p{number % 7}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Title {number}\n\n" + f"pumpkin{number} and other words " * 60)
    hub = Hub(tmp_path, jane_dir=str(tmp_path / "library"))
    try:
        params = {"name": "search", "arguments": {"query": "pumpkin299"}, "_meta": {"progressToken": "t"}}
        answer = hub.legacy("jane", "tools/call", params)
        assert [one["path"] for one in answer.result["structuredContent"]["results"]] == ["299.md"]
        notices = [one["params"] for one in answer.messages if one.get("method") == "notifications/progress"]
        assert notices and all(one["total"] == 300 for one in notices)
        assert [one["progress"] for one in notices] == sorted({one["progress"] for one in notices})
    finally:
        hub.close()


def test_a_summary_is_the_clients_own_where_it_lends_its_model(hub: Hub) -> None:
    """JANE-22: sampling; without it the prompt is the task and the document."""
    done(hub, "create_document", {**AT, "title": "Rooms", "content": "A room is a place."})
    params: dict[str, Any] = {"name": "summarize", "arguments": {"uri": "spec://hub/a/rooms.md", "length": "two words"}}
    plain = hub.modern("jane", "prompts/get", params).result["messages"]
    assert [one["role"] for one in plain] == ["user", "user"] and "two words" in plain[0]["content"]["text"]
    assert "A room is a place." in plain[1]["content"]["resource"]["text"]
    asked = hub.modern("jane", "prompts/get", params, capabilities={"sampling": {}}).result
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == "sampling/createMessage" and "A room is a place." in orjson.dumps(question).decode()
    reply = {"role": "assistant", "content": {"type": "text", "text": "Meeting place"}, "model": "m"}
    more = {"inputResponses": {key: reply}, "requestState": asked["requestState"]}
    answer = hub.modern("jane", "prompts/get", params | more, capabilities={"sampling": {}}).result
    assert answer["messages"][-1] == {"role": "assistant", "content": {"type": "text", "text": "Meeting place"}}


def test_deleting_moving_and_the_past_are_off_until_an_operator_wants_them(tmp_path: Path) -> None:
    """Issue part 4; every version stays readable after its document is gone."""
    configuration = orjson.loads((ROOT / "reference_templates/mcps/configs/jane.json").read_bytes())
    definition = (ROOT / "reference_templates/servers/definitions/jane.py").read_text()
    for name in ("listing", "resources_transform_cid"):
        del configuration[name]
    files = {"shelf.py": definition, "shelf.mcp.json": orjson.dumps(configuration).decode()}
    hub = Hub(tmp_path, files)
    try:
        for tool in ("delete_document", "move_document", "document_history"):
            assert hub.call("jane", tool, AT).result["isError"] is True and tool not in hub.catalogue.find("jane").tools
        first = done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"}, "shelf")["cid"]
        moved = done(hub, "move_document", {**AT, "to": "b.md"}, "shelf")
        assert moved["uri"] == "spec://hub/b.md"
        assert done(hub, "delete_document", {**AT, "path": "b.md"}, "shelf")["deleted"] is True
        past = done(hub, "document_history", AT, "shelf")["versions"]
        assert [one["how"] for one in past] == ["moved to specs/hub/b.md", "created"]
        assert done(hub, "document_history", {**AT, "cid": first}, "shelf")["text"].endswith("one")
    finally:
        hub.close()


def test_the_folder_is_what_the_settings_say(tmp_path: Path) -> None:
    """JANE_DIR, else the data folder; nothing is made before the first document."""
    hub = Hub(tmp_path)
    try:
        assert not (tmp_path / "data/jane").exists()
        done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"})
        assert (tmp_path / "data/jane/specs/hub/a/rooms.md").exists()
    finally:
        hub.close()


def jane_with(folder: Path) -> dict[str, str]:
    """Files of a server `jane` that stores its documents in this folder."""
    config = orjson.loads((ROOT / "reference_templates/mcps/configs/jane.json").read_bytes())
    config = {key: value for key, value in config.items() if key != "resources_transform_cid"}
    source = (ROOT / "reference_templates/servers/definitions/jane.py").read_text()
    return {"jane.py": source, "jane.mcp.json": orjson.dumps(config | {"folder": str(folder)}).decode()}


def test_the_configuration_names_the_folder_and_another_folder_has_other_documents(tmp_path: Path) -> None:
    """The folder is a field of the server's configuration; a change of it needs no restart."""
    hub = Hub(tmp_path, jane_with(tmp_path / "one"))
    try:
        done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"})
        assert (tmp_path / "one/specs/hub/a/rooms.md").exists() and not (tmp_path / "data/jane").exists()
        for name, text in jane_with(tmp_path / "two").items():
            (hub.servers / name).write_text(text)
        until(lambda: hub.catalogue.find("jane").config["folder"] == str(tmp_path / "two"))
        assert done(hub, "list_specs", {})["projects"] == []
        done(hub, "create_document", {**AT, "title": "Rooms", "content": "two"})
        assert (tmp_path / "two/specs/hub/a/rooms.md").exists()
    finally:
        hub.close()


def test_the_setting_of_the_folder_takes_precedence_over_the_configuration(tmp_path: Path) -> None:
    hub = Hub(tmp_path, jane_with(tmp_path / "configured"), jane_dir=str(tmp_path / "set"))
    try:
        done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"})
        assert (tmp_path / "set/specs/hub/a/rooms.md").exists() and not (tmp_path / "configured").exists()
    finally:
        hub.close()


def test_an_edit_of_content_notifies_of_the_document_and_not_of_the_list(hub: Hub) -> None:
    """JANE-24: a new title changes the list, and so does a new document."""
    with hub.catalogue.store.bus.subscribe(["updated/jane", "changed/jane"]) as mailbox:

        def notices_until(last: str) -> list[str]:
            notices: list[str] = []

            def came() -> bool:
                got = mailbox.get(0.2)
                notices.extend([got[0]] if got else [])
                return last in notices

            until(came, last)
            return notices

        done(hub, "create_document", {**AT, "title": "Rooms", "content": "one"})
        notices_until("changed/jane")
        done(hub, "update_document", {**AT, "content": "two"})
        assert notices_until("updated/jane") == ["updated/jane"]
        done(hub, "update_document", {**AT, "title": "Places"})
        assert notices_until("changed/jane") == ["updated/jane", "changed/jane"]
        done(hub, "create_document", {**AT, "path": "b.md", "title": "B", "content": "one"})
        assert notices_until("changed/jane") == ["changed/jane"]


def test_documents_have_times_matches_scores_and_relative_paths(hub: Hub, tmp_path: Path) -> None:
    """JANE-17: the whole row: createdAt and updatedAt, highlighted matches with scores, relative paths."""
    made = done(hub, "create_document", {**AT, "title": "Rooms", "content": "## Doors\n\nA room has doors.\n"})
    done(hub, "create_document", {**AT, "path": "b.md", "title": "Other", "content": "No doors.\n"})
    changed = done(hub, "update_document", {**AT, "content": "## Doors\n\nA room has many doors.\n"})
    assert made["createdAt"] == made["updatedAt"] == changed["createdAt"] < changed["updatedAt"]
    read = done(hub, "get_spec", {"project": "hub", "path": AT["path"]})
    assert (read["createdAt"], read["updatedAt"]) == (changed["createdAt"], changed["updatedAt"])
    found = done(hub, "search", {"query": "room doors"})
    first, second = found["results"]
    assert first["path"] == "a/rooms.md" and first["score"] > second["score"] > 0
    assert (first["createdAt"], first["updatedAt"]) == (changed["createdAt"], changed["updatedAt"])
    assert {"line": 8, "text": "A **room** has many **doors**."} in first["matches"]
    assert first["section"] == {"title": "Doors", "anchor": "doors"}
    text = hub.call("jane", "search", {"query": "room doors"}).text
    assert f"(score {first['score']:g})" in text and "A **room** has many **doors**." in text
    assert "Section: Doors (#doors)" in text
    listed = done(hub, "list_specs", {"project": "hub"})
    assert [one["path"] for one in listed["documents"]] == ["a/rooms.md", "b.md"]
    for answer in (made, changed, read, found, listed):
        assert str(tmp_path) not in orjson.dumps(answer).decode()


def test_results_come_in_pages_and_a_typo_is_corrected(hub: Hub) -> None:
    """JANE-8: limit, offset, an exact total, and what was probably meant."""
    for number in range(7):
        done(hub, "create_document", {**AT, "path": f"{number}.md", "title": f"T{number}", "content": "pumpkin"})
    first = done(hub, "search", {"query": "pumpkin", "limit": 5})
    rest = done(hub, "search", {"query": "pumpkin", "limit": 5, "offset": first["nextOffset"]})
    assert (first["total"], len(first["results"]), rest["total"], len(rest["results"])) == (7, 5, 7, 2)
    assert "nextOffset" not in rest and len({one["uri"] for one in first["results"] + rest["results"]}) == 7
    assert "search again with offset 5" in hub.call("jane", "search", {"query": "pumpkin", "limit": 5}).text
    assert done(hub, "search", {"query": "pumkpin"})["didYouMean"] == "pumpkin"
    assert hub.call("jane", "search", {"query": "x", "limit": 0}).result["isError"] is True


def test_texts_that_do_not_fit_into_an_answer_are_named(hub: Hub) -> None:
    """JANE-8: includeContent is bounded, and so is the answer."""
    for number in range(4):
        place = {**AT, "path": f"{number}.md", "title": f"T{number}"}
        done(hub, "create_document", {**place, "content": "pumpkin " * 20_000})
    found = done(hub, "search", {"query": "pumpkin", "includeContent": True})
    assert len(found["results"]) == 4 and len(orjson.dumps(found)) < 1_000_000
    assert [("content" in one, "contentLeftOut" in one) for one in found["results"]] == [
        *[(True, False)] * 2,
        *[(False, True)] * 2,
    ]
