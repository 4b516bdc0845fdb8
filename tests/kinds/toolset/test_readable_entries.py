"""Resources, templates, prompts and skills of a toolset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.activity.records import Filter
from tests.access.team import FILES, new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request, sse_messages
from tests.kinds.toolset.sets import problems, toolset, write

SKILL = "---\nname: guide\ndescription: A guide.\n---\nRead on.\n"
OTHER = {
    "resources": {"plan": {"uri": "other://plan", "name": "Plan", "text": "another plan"}},
    "prompts": {"ask": {"messages": [{"role": "user", "content": "Well?"}]}},
    "skills": {"guide": {"SKILL.md": {"text": SKILL}, "more.md": {"text": "more"}}},
}
SETS = {
    "other.json": orjson.dumps(OTHER).decode(),
    "desk.json": toolset(
        include=["notes.search"],
        exclude=["notes.notes://diary"],
        resources=["notes://*", "notes.note://*", "skill://guide/*"],
        prompts=["notes.*", "other.*"],
    ),
    "outer.json": toolset(resources=["desk.*"], prompts=["desk.notes__ask"]),
}
MINE = {"to": ["key:ann"], "may": ["call", "read"], "on": ["desk", "outer"]}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("readable"), {**FILES, **SETS})
    set_grants(found, {"grants": [MINE]})
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def asked(hub: Hub, method: str, params: dict[str, Any], headers: dict[str, str], server: str = "desk") -> Any:
    return hub.modern(server, method, params, headers=headers)


def read(hub: Hub, uri: str, headers: dict[str, str], server: str = "desk") -> str:
    """The text of a resource, or the message of the error."""
    last = asked(hub, "resources/read", {"uri": uri}, headers, server).last
    return str(last["result"]["contents"][0]["text"] if "result" in last else last["error"]["message"])


def names(hub: Hub, kind: str, key: str, headers: dict[str, str], server: str = "desk") -> list[str]:
    listed = asked(hub, f"{kind}/list", {}, headers, server).result
    (member,) = [one for one in listed if isinstance(listed[one], list)]
    return sorted(one[key] for one in listed[member])


@pytest.mark.parametrize("server", ["desk", "outer"])
def test_a_toolset_lists_the_resources_and_templates_that_its_patterns_choose(
    hub: Hub, ann: dict[str, str], server: str
) -> None:
    assert problems(hub, server) == {}
    assert names(hub, "resources", "uri", ann, server) == ["notes://plan", "skill://guide/SKILL.md"]
    assert names(hub, "resources/templates", "uriTemplate", ann, server) == ["note://{id}"]


@pytest.mark.parametrize("server", ["desk", "outer"])
def test_a_resource_is_read_by_the_right_on_the_toolset_alone(hub: Hub, ann: dict[str, str], server: str) -> None:
    assert read(hub, "notes://plan", ann, server) == "the plan"
    assert read(hub, "note://7", ann, server) == "note 7"
    assert read(hub, "skill://guide/SKILL.md", ann, server) == SKILL
    assert read(hub, "skill://guide/more.md", ann, server) == "more"
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "note://8"}}
    answer = hub.send(server, message, {**ann, "MCP-Protocol-Version": "2025-11-25"})
    assert answer.result["contents"][0] == {"uri": "note://8", "mimeType": "text/plain", "text": "note 8"}


@pytest.mark.parametrize(
    "uri", ["notes://diary", "other://plan", "server://notes", "variable://x", "skill://guide/x.md"]
)
def test_what_is_not_chosen_is_not_read(hub: Hub, ann: dict[str, str], uri: str) -> None:
    answer = asked(hub, "resources/read", {"uri": uri}, ann).last
    assert "error" in answer and "diary" not in str(answer).replace(uri, "")


def test_prompts_of_one_name_have_the_name_of_their_server(hub: Hub, ann: dict[str, str]) -> None:
    assert names(hub, "prompts", "name", ann) == ["notes__ask", "other__ask", "scold"]
    for server in ("desk", "outer"):
        params = {"name": "notes__ask", "arguments": {"topic": "whales"}}
        found = asked(hub, "prompts/get", params, ann, server).result
        assert found["messages"][0]["content"]["text"] == "About whales?"
    wrong = asked(hub, "prompts/get", {"name": "notes__ask", "arguments": {"x": "y"}}, ann).error
    assert wrong["code"] == -32602 and "x is not one of its arguments" in wrong["message"]


def test_an_argument_of_a_prompt_is_completed_as_at_its_origin(hub: Hub, ann: dict[str, str]) -> None:
    argument = {"name": "topic", "value": "wh"}
    for server in ("desk", "outer"):
        params = {"ref": {"type": "ref/prompt", "name": "notes__ask"}, "argument": argument}
        assert asked(hub, "completion/complete", params, ann, server).result["completion"]["values"] == ["whales"]


def test_a_skill_of_a_toolset_is_listed_with_its_files(hub: Hub, ann: dict[str, str]) -> None:
    (skill,) = asked(hub, "skills/list", {}, ann).result["skills"]
    assert [one["uri"] for one in skill["resources"]] == ["skill://guide/SKILL.md", "skill://guide/more.md"]


def test_a_denial_at_the_origin_holds_for_what_a_toolset_gives_to_read(hub: Hub, ann: dict[str, str]) -> None:
    denied = ["notes.notes://plan", "notes.note://7", "notes.ask", "other.skill://*"]
    set_grants(hub, {"grants": [MINE], "denials": [{"to": ["key:ann"], "on": denied}]})
    try:
        for server in ("desk", "outer"):
            assert names(hub, "resources", "uri", ann, server) == []
            for uri in ("notes://plan", "note://7", "skill://guide/SKILL.md", "skill://guide/more.md"):
                assert "error" in asked(hub, "resources/read", {"uri": uri}, ann, server).last
            assert "error" in asked(hub, "prompts/get", {"name": "notes__ask"}, ann, server).last
            params = {"ref": {"type": "ref/prompt", "name": "notes__ask"}, "argument": {"name": "topic", "value": ""}}
            assert "error" in asked(hub, "completion/complete", params, ann, server).last
            assert "error" in asked(hub, "skills/list", {}, ann, server).last
        assert read(hub, "note://8", ann) == "note 8"
    finally:
        set_grants(hub, {"grants": [MINE]})


def test_a_toolset_with_the_rights_of_the_caller_gives_to_read_what_its_caller_may_read(
    hub: Hub, ann: dict[str, str]
) -> None:
    fields = {"resources": ["notes://*", "notes.note://*"], "prompts": ["notes.*"]}
    write(hub, "both.json", toolset(**fields, rights="caller"))
    mine = {**MINE, "on": ["both", "notes.notes://diary"]}
    set_grants(hub, {"grants": [mine]})
    try:
        assert names(hub, "resources", "uri", ann, "both") == ["notes://diary"]
        assert names(hub, "prompts", "name", ann, "both") == []
        assert "error" in asked(hub, "resources/read", {"uri": "note://7"}, ann, "both").last
    finally:
        set_grants(hub, {"grants": [MINE]})


def test_a_pattern_that_matches_nothing_is_a_problem(hub: Hub) -> None:
    write(hub, "wrong.json", toolset(include=["notes.search"], resources=["nots://*"], prompts=["notes.asked"]))
    assert problems(hub, "wrong") == {
        "resources.0": "nots://* matches no resource; did you mean notes://* or note://*?",
        "prompts.0": "notes.asked matches no prompt; did you mean notes.ask?",
    }


def test_a_record_of_a_read_names_the_origin(hub: Hub, ann: dict[str, str]) -> None:
    read(hub, "notes://plan", ann)
    record = hub.activity.recent(Filter()).records[0]
    assert (record.server, record.name) == ("desk", "notes://plan")
    assert [(one["server"], one["name"]) for one in record.origins] == [("notes", "notes://plan")]


def test_a_change_of_a_resource_is_announced_to_who_listens_at_the_toolset(hub: Hub) -> None:
    wanted = {"resourceSubscriptions": ["notes://plan", "notes://diary"]}
    for server in ("desk", "outer"):
        operator = hub.as_operator()
        stream = operator.stream(server, *modern_request("subscriptions/listen", {"notifications": wanted}))
        heard = (message for frame in stream for message in sse_messages(frame))
        assert next(heard)["method"] == "notifications/subscriptions/acknowledged"
        hub.catalogue.hub.updated("other", "notes://plan")
        hub.catalogue.hub.updated("notes", "notes://diary")
        hub.catalogue.hub.updated("notes", "notes://plan")
        assert next(heard)["params"]["uri"] == "notes://plan"
        stream.close()
