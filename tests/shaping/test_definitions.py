"""The tools of Python files, commands and folders of documents as their own configuration shapes them. Issue 54."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.config import parse_config
from patchbay.errors import ConfigError
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import MODERN, Hub
from tests.kinds.toolset.sets import GIT, listed, problems, toolset, write
from tests.waiting import until
from tests.web.browsing import read, read_json

SHAPES = {
    "git_log": {
        "name": "history",
        "description": "The last commits.",
        "arguments": {"repo_path": {"value": "/srv/product"}, "max_count": {"name": "count", "default": 20}},
        "result": "{given: [.repo, .count]}",
    },
    "git_push": {"annotations": {"destructiveHint": True}, "max_bytes": 3},
    "status": {"name": "state"},
}
DESCRIBED = {"auto_discover": True, "isolation": "inline", "tools": SHAPES}
COMMAND = {
    "tools": {
        "say": {
            "argv": ["{text}", "{to}"],
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "to": {"type": "string"}}},
            "name": "greet",
            "arguments": {"to": {"value": "Ada"}, "text": {"name": "word", "default": "Hello"}},
        }
    }
}
DOCUMENTS = {
    "search": {"name": "find", "arguments": {"limit": {"value": 1}}, "result": "[.results[].path]"},
    "list_documents": {"title": "All documents"},
    "get_documnet": {"title": "x"},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("definitions")
    (folder / "texts").mkdir()
    for name in ("one", "two"):
        (folder / "texts" / f"{name}.md").write_text(f"# {name}\n\nThe weather is fine.\n")
    files = {
        "git.py": GIT,
        "git.mcp.json": json.dumps(DESCRIBED),
        "say.sh": '@bash_command printf "%s, %s!"\n',
        "say.mcp.json": json.dumps(COMMAND),
        "texts.json": json.dumps({"kind": "documents", "root": str(folder / "texts"), "tools": DOCUMENTS}),
        "release.json": toolset(tools={"past": "git.history", "hello": "say.greet"}),
    }
    found = Hub(folder, files, isolation="inline").log_in()
    yield found
    found.close()


def test_a_python_file_lists_its_functions_as_its_configuration_shapes_them(hub: Hub) -> None:
    found = listed(hub, "git")
    assert set(found) == {"history", "git_push", "state", "fail", "question"} and problems(hub, "git") == {}
    assert found["history"]["description"] == "The last commits."
    assert set(found["history"]["inputSchema"]["properties"]) == {"count"}
    assert "outputSchema" not in found["history"]
    assert found["git_push"]["annotations"]["destructiveHint"] is True


@pytest.mark.parametrize(("server", "tool"), [("git", "history"), ("release", "past"), ("", "git__history")])
def test_a_shaped_function_gets_its_own_arguments(hub: Hub, server: str, tool: str) -> None:
    assert hub.call(server, tool, {"count": 3}, MODERN).result["structuredContent"] == {"given": ["/srv/product", 3]}
    assert hub.call(server, tool, {}, MODERN).result["structuredContent"] == {"given": ["/srv/product", 20]}


def test_a_long_text_of_a_shaped_function_is_a_link(hub: Hub) -> None:
    content = hub.call("git", "git_push", {}, MODERN).result["content"]
    assert any(one["type"] == "resource_link" for one in content)


@pytest.mark.parametrize(("server", "tool"), [("say", "greet"), ("release", "hello")])
def test_a_shaped_command_gets_its_own_arguments(hub: Hub, server: str, tool: str) -> None:
    assert hub.call(server, tool, {"word": "Hi"}).text == "Hi, Ada!"
    assert hub.call(server, tool, {}).text == "Hello, Ada!"


def test_the_tools_of_a_folder_of_documents_are_shaped(hub: Hub) -> None:
    until(lambda: len(hub.catalogue.find("texts").resources) == 2, "the documents")
    found = listed(hub, "texts")
    assert set(found) == {"find", "list_documents", "get_document"}
    assert (
        found["list_documents"]["title"] == "All documents"
        and "limit" not in found["find"]["inputSchema"]["properties"]
    )
    assert len(hub.call("texts", "find", {"query": "weather"}, MODERN).result["structuredContent"]) == 1
    sentence = "there is no tool get_documnet; did you mean get_document or list_documents?"
    assert problems(hub, "texts") == {"tools.get_documnet": sentence}


@pytest.mark.parametrize(
    ("server", "tool", "arguments"),
    [
        ("git", "history", {"repo_path": "/etc"}),
        ("git", "history", {"Repo-Path": "/etc"}),
        ("git", "history", {"max_count": 3}),
        ("git", "git_log", {"repo_path": "/etc"}),
        ("git", "git_log", {}),
        ("say", "greet", {"to": "Eve"}),
        ("say", "greet", {"text": "x"}),
        ("say", "say", {"text": "x", "to": "Eve"}),
        ("texts", "find", {"query": "weather", "limit": 2}),
        ("texts", "search", {"query": "weather"}),
    ],
)
def test_no_call_reaches_a_definition_behind_its_shape(
    hub: Hub, server: str, tool: str, arguments: dict[str, Any]
) -> None:
    answer = hub.call(server, tool, arguments, MODERN)
    assert answer.result["isError"]
    assert not any(word in answer.text for word in ("/etc", "Eve", "one.md", '"given"'))


def test_the_page_the_price_and_the_past_have_what_callers_see(hub: Hub) -> None:
    page = read(hub, "/servers/git")
    assert "history" in page and "The last commits." in page and "/srv/product" not in page.partition("history")[0]
    prices = read_json(hub.client.get("/toolsets/git.json"))
    assert {one["name"] for one in prices["tools"]} == {"history", "git_push", "state", "fail", "question"}
    assert "git" in json.dumps(hub.client.get("/servers/git/past.json").json)


def test_what_cannot_be_shaped_is_not_listed_and_named(tmp_path: Path) -> None:
    """Doctor and pages show these problems as they do those of a mount."""
    tools = {
        "git_log": {"name": "status"},
        "git_push": {"arguments": {"repo": {"value": "x"}}},
        "fail": {"result": ".["},
    }
    fields = {"auto_discover": True, "isolation": "inline", "tools": tools}
    hub = Hub(tmp_path, {"git.py": GIT, "git.mcp.json": json.dumps(fields)}, isolation="inline").log_in()
    found = problems(hub, "git")
    assert set(listed(hub, "git")) == {"status", "question"}
    assert found["tools.status"] == "not listed: another tool has its name"
    assert "the origin has no argument repo; did you mean repo_path?" in found["tools.git_push"]
    assert "is no jq expression" in found["tools.fail.result"] or "jq" in found["tools.fail.result"]
    write(hub, "git.mcp.json", json.dumps({**fields, "tools": {"git_log": {"name": "x"}, "fail": {"name": "x"}}}))
    assert "expected another name: git_log has this one" in str(hub.catalogue.find_any("git").broken)
    hub.close()


def test_a_denial_of_the_name_of_a_function_holds_for_the_name_that_the_configuration_gives(tmp_path: Path) -> None:
    files = {
        "git.py": GIT,
        "git.mcp.json": json.dumps(DESCRIBED),
        "release.json": toolset(tools={"past": "git.history"}),
    }
    hub = team_hub(tmp_path, files)
    everything = {"grants": [{"to": ["key:ann"], "may": ["call"], "on": ["git", "release"]}]}
    ann = new_key(hub, "ann")
    for server, tool in (("git", "history"), ("release", "past"), ("", "git__history")):
        params = {"name": tool, "arguments": {}}
        set_grants(hub, everything)
        assert "/srv/product" in json.dumps(hub.modern(server, "tools/call", params, headers=ann).last), server
        set_grants(hub, {**everything, "denials": [{"to": ["key:ann"], "on": ["*.git_*"]}]})
        assert "/srv/product" not in json.dumps(hub.modern(server, "tools/call", params, headers=ann).last), server
    hub.close()


def test_the_arguments_of_a_schedule_stay_those_of_its_calls(tmp_path: Path) -> None:
    tools = {"git_log": {"schedule": "@daily", "arguments": {"repo_path": "/srv"}, "name": "history"}}
    fields = {"isolation": "inline", "tools": tools}
    hub = Hub(tmp_path, {"git.py": GIT, "git.mcp.json": json.dumps(fields)}, isolation="inline")
    tool = hub.catalogue.find("git").tools["history"]
    assert tool.target["schedule"]["arguments"] == {"repo_path": "/srv"}
    assert set(tool.wire["inputSchema"]["properties"]) == {"repo_path", "max_count"}
    hub.close()


@pytest.mark.parametrize(("is_masked", "said"), [(False, "no repository here"), (True, "the tool failed")])
def test_a_failure_of_a_shaped_function_is_that_of_the_function(tmp_path: Path, is_masked: bool, said: str) -> None:
    tools = {"fail": {"name": "bad", "result": "."}, "git_log": {"arguments": {"repo_path": {"name": "place"}}}}
    fields = {"isolation": "inline", "mask_errors": is_masked, "tools": tools}
    source = GIT.replace(
        'return {"repo": repo_path',
        'raise ValueError("no repository here at repo_path")\n    return {"repo": repo_path',
    )
    hub = Hub(tmp_path, {"git.py": source, "git.mcp.json": json.dumps(fields)}, isolation="inline")
    result = hub.call("git", "bad").result
    assert result["isError"] and said in result["content"][0]["text"]
    text = hub.call("git", "git_log", {"place": "x"}).result["content"][0]["text"]
    assert said in text and (is_masked or "at place" in text)
    hub.close()


def test_a_resource_shows_the_last_output_of_a_tool_by_the_name_that_callers_see(tmp_path: Path) -> None:
    resources = {"last": {"uri": "git://last", "last_output_of": "state"}}
    fields = {"isolation": "inline", "tools": {"status": {"name": "state"}}, "resources": resources}
    hub = Hub(tmp_path, {"git.py": GIT, "git.mcp.json": json.dumps(fields)}, isolation="inline")
    hub.call("git", "state")
    assert hub.modern("git", "resources/read", {"uri": "git://last"}).result["contents"][0]["text"] == "clean"
    hub.close()


@pytest.mark.parametrize(
    ("tools", "place", "words"),
    [
        ({"a": {"arguments": {"x": 1}}}, "tools.a.arguments.x", "expected an object"),
        ({"a": {"arguments": {"x": {"vlaue": 1}}}}, "tools.a.arguments.x", "did you mean value"),
        ({"a": {"result": ""}}, "tools.a.result", "jq expression"),
        ({"a": {"max_bytes": 0}}, "tools.a.max_bytes", "at least 1"),
        ({"a": {"name": "a b"}}, "tools.a.name", "expected"),
    ],
)
def test_a_wrong_shape_of_a_definition_is_refused_with_its_place(tools: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(json.dumps({"tools": tools}).encode(), "git.mcp.json")
    assert raised.value.path == place and words in raised.value.message


def test_a_generated_tool_is_not_shaped_where_it_is_generated(tmp_path: Path) -> None:
    source = (
        'def generate_tools(server_name, context):\n    return [{"name": "x", "function": "status", "result": "."}]\n'
    )
    (tmp_path / "servers").mkdir()
    fields = {"isolation": "inline", "tools_transform_cid": "more.py"}
    hub = Hub(tmp_path, {"git.py": GIT, "git.mcp.json": json.dumps(fields)}, isolation="inline")
    (hub.servers / "transforms").mkdir()
    (hub.servers / "transforms" / "more.py").write_text(source)
    write(hub, "git.mcp.json", json.dumps({**fields, "tools_transform_cid": "transforms/more.py"}))
    reasons = [one.reason for one in hub.catalogue.find("git").problems]
    assert any("expected only in the field tools of the configuration" in one for one in reasons), reasons
    hub.close()
