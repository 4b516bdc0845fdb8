"""A toolset is a server of chosen tools of other servers: what it lists, and how its calls run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.config import parse_config
from patchbay.errors import ConfigError
from tests.hubs import MODERN, Hub
from tests.kinds.toolset.sets import FILES, hub_with, listed, problems, toolset, write

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)
RELEASE = toolset(
    title="Release work",
    instructions="Read `history` before you `git_push`.",
    include=["git.git_*", "time"],
    exclude=["*.status"],
    tools={
        "history": {"from": "git.git_log", "title": "History", "description": "The last commits of the product."},
        "broken": "git.fail",
        "who": "git.question",
    },
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = hub_with(tmp_path_factory.mktemp("toolset"), {"release.json": RELEASE}).as_operator()
    yield found
    found.close()


def test_a_toolset_lists_the_tools_that_it_names_and_includes(hub: Hub) -> None:
    found = listed(hub)
    assert set(found) == {"history", "broken", "who", "git_push", "now"}
    assert found["history"]["title"] == "History"
    assert found["history"]["description"] == "The last commits of the product."
    assert found["now"]["description"] == "Tell the time."
    assert found["history"]["inputSchema"] == listed(hub, "git")["git_log"]["inputSchema"]
    assert problems(hub) == {}


def test_a_toolset_has_its_own_title_and_instructions(hub: Hub) -> None:
    answer = hub.modern("release", "server/discover").result
    assert answer["instructions"] == "Read `history` before you `git_push`."
    assert hub.catalogue.find("release").title == "Release work"


@pytest.mark.parametrize("version", REVISIONS)
def test_a_call_runs_the_origin_in_every_revision(hub: Hub, version: str) -> None:
    answer = hub.call("release", "history", {"repo_path": "/srv", "max_count": 3}, version)
    assert '"count": 3' in answer.text.replace('"count":3', '"count": 3')
    assert "/srv" in answer.text


def test_wrong_arguments_are_refused_with_the_name_that_the_caller_knows(hub: Hub) -> None:
    answer = hub.call("release", "history", {"max_count": 3})
    assert answer.result["isError"] and "do not fit history" in answer.text and "repo_path" in answer.text


def test_a_failure_of_the_origin_is_the_failure_of_the_call(hub: Hub) -> None:
    answer = hub.call("release", "broken")
    assert answer.result["isError"] and "no repository here" in answer.text


def test_progress_of_the_origin_reaches_the_caller(hub: Hub) -> None:
    answer = hub.modern("release", "tools/call", {"name": "git_push", "arguments": {}}, meta={"progressToken": "p"})
    seen = [one["params"] for one in answer.messages if one.get("method") == "notifications/progress"]
    assert [(one["progressToken"], one["message"]) for one in seen] == [("p", "half")]
    assert answer.text == "pushed ."


def test_a_long_call_has_the_time_of_a_long_call_of_its_origin(tmp_path: Path) -> None:
    long = (
        'def long(context) -> bool:\n    """Take long."""\n    context.background()\n    return context.left() > 1000\n'
    )
    files = {
        "slow.py": long,
        "slow.mcp.json": '{"auto_discover": true, "isolation": "inline", "timeout": 30}',
        "release.json": toolset(include=["slow.*"]),
        "outer.json": toolset(include=["release.*"]),
    }
    hub = hub_with(tmp_path, files).as_operator()
    for server in ("slow", "release", "outer"):
        native = {"jsonrpc": "2.0", "id": 1, "method": f"{server}.long", "params": {}}
        answer = hub.client.post("/rpc", json=native, headers={"Accept": "application/x-ndjson"}).text
        assert '"data":true' in answer, (server, answer)
    hub.close()


def test_a_question_of_the_origin_reaches_the_caller_and_its_answer_the_origin(hub: Hub) -> None:
    call = {"name": "who", "arguments": {}}
    asked = hub.modern("release", "tools/call", call, {"elicitation": {"form": {}}}).result
    assert asked["resultType"] == "input_required"
    key = next(iter(asked["inputRequests"]))
    answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
    again = {**call, "inputResponses": answers, "requestState": asked["requestState"]}
    assert "Ann" in hub.modern("release", "tools/call", again, {"elicitation": {"form": {}}}).text


def test_tools_of_a_toolset_are_at_the_address_of_all_servers_and_at_plain_http(hub: Hub) -> None:
    answer = hub.call("", "release__now", {"zone": "CET"}, MODERN)
    assert answer.text == "noon in CET"
    assert hub.client.post("/release/now", json={"zone": "CET"}).text.strip('"\n') == "noon in CET"


def test_two_included_tools_of_one_name_get_the_names_of_their_servers(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {"release.json": toolset(include=["*.status", "git.git_push"])}).as_operator()
    assert {"git__status", "time__status", "git_push"} <= set(listed(hub))
    assert "status" not in listed(hub)
    assert hub.call("release", "time__status").text == "ticking"
    hub.close()


def test_a_pattern_that_matches_nothing_is_a_problem_that_names_the_nearest_name(tmp_path: Path) -> None:
    files = {
        "release.json": toolset(
            include=["git.git_lgo", "gti.git_log", "time.*"],
            exclude=["time.stauts"],
            tools={"a": "git.git_pusch", "b": "tme.now"},
        )
    }
    hub = hub_with(tmp_path, files).as_operator()
    found = problems(hub)
    assert "did you mean git.git_log?" in found["include.0"]
    assert "there is no server gti" in found["include.1"] and "did you mean git.git_log?" in found["include.1"]
    assert "did you mean time.status?" in found["exclude.0"]
    assert "did you mean git.git_push?" in found["tools.a"]
    assert "did you mean time.now?" in found["tools.b"]
    assert set(listed(hub)) == {"now", "status"}
    hub.close()


def test_a_toolset_follows_its_origins(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {"release.json": toolset(include=["git", "clock.*"])}).as_operator()
    assert "now" not in listed(hub) and "clock" in problems(hub)["include.1"]
    write(hub, "clock.py", FILES["time.py"])
    assert "now" in listed(hub) and problems(hub) == {}
    write(hub, "clock.py", 'def later() -> str:\n    """Tell a later time."""\n    return "one"\n')
    assert "now" not in listed(hub) and hub.call("release", "later").text == "one"
    (hub.servers / "clock.py").unlink()
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    assert "later" not in listed(hub)
    hub.close()


def test_a_toolset_is_the_same_object_while_no_origin_changes(hub: Hub) -> None:
    before = hub.catalogue.find("release")
    write(hub, "other.json", '{"kind": "static", "title": "Other"}')
    assert hub.catalogue.find("release") is before


def test_a_toolset_chooses_from_another_one_that_it_names(tmp_path: Path) -> None:
    files = {
        "inner.json": toolset(tools={"log": "git.git_log"}),
        "outer.json": toolset(tools={"history": "inner.log"}, include=["*.now"]),
    }
    hub = hub_with(tmp_path, files).as_operator()
    assert set(listed(hub, "outer")) == {"history", "now"}
    assert "/srv" in hub.call("outer", "history", {"repo_path": "/srv"}).text
    origins = hub.catalogue.find("outer").tools["history"].origins
    assert [(one.server, one.name) for one in origins] == [("inner", "log"), ("git", "git_log")]
    hub.close()


def test_toolsets_that_lead_back_to_themselves_are_broken_by_name(tmp_path: Path) -> None:
    files = {
        "a.json": toolset(include=["b.*", "git.status"]),
        "b.json": toolset(include=["c.*"]),
        "c.json": toolset(include=["a.*"]),
        "self.json": toolset(include=["self.*"]),
        "user.json": toolset(include=["a.*", "time.now"]),
    }
    hub = hub_with(tmp_path, files).as_operator()
    every = {one.name: one for one in hub.catalogue.all()}
    assert every["a"].broken == "its entries lead back to itself: a -> b -> c -> a"
    assert every["self"].broken == "its entries lead back to itself: self -> self"
    assert every["user"].broken is None and set(listed(hub, "user")) == {"now"}
    write(hub, "c.json", toolset(include=["time.*"]))
    assert set(listed(hub, "a")) == {"now", "git__status", "b__status"}
    hub.close()


def test_at_most_four_toolsets_choose_from_each_other(tmp_path: Path) -> None:
    files = {f"t{number}.json": toolset(tools={"now": f"t{number + 1}.now"}) for number in range(1, 5)}
    hub = hub_with(tmp_path, {**files, "t5.json": toolset(tools={"now": "time.now"})}).as_operator()
    every = {one.name: one for one in hub.catalogue.all()}
    assert every["t1"].broken == "more than 4 toolsets choose from each other: t1 -> t2 -> t3 -> t4 -> t5"
    assert hub.call("t2", "now").text == "noon in UTC"
    hub.close()


def test_a_pinned_version_of_a_toolset_has_the_tools_that_it_named(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {"release.json": toolset(tools={"clock": "time.now"})}).as_operator()
    version = hub.catalogue.find("release").version
    write(hub, "release.json", toolset(tools={"state": "git.status"}))
    assert hub.call(f"release@{version}", "clock").text == "noon in UTC"
    assert set(listed(hub)) == {"state"}
    hub.close()


def test_a_toolset_that_came_over_http_is_not_served(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {})
    store = hub.catalogue.store
    config = store.blobs.put(toolset(tools={"clock": "time.now"}).encode())
    text = store.blobs.put(orjson.dumps({"stolen": {"config_cid": config}}))
    store.names.move({"variables/mcps": text}, "web", "over HTTP")
    hub.catalogue.refresh()
    broken = {one.name: one.broken for one in hub.catalogue.all()}["stolen"]
    assert broken is not None and "needs the operator" in broken
    config = store.blobs.put(toolset(tools={"state": "git.status"}).encode())
    text = store.blobs.put(orjson.dumps({"given": {"config_cid": config}}))
    store.names.move({"variables/mcps": text}, "start", "by the operator")
    hub.catalogue.refresh()
    assert set(hub.catalogue.find("given").tools) == {"state"}
    hub.close()


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({}, "", 'expected "include", "tools", "resources" or "prompts"'),
        ({"include": "git.*"}, "include", "expected an array"),
        ({"include": ["git/git_log"]}, "include.0", "did you mean git.git_log?"),
        ({"include": ["git."]}, "include.0", "expected a pattern such as git"),
        ({"tools": {"a": "git"}}, "tools.a", "expected one tool, such as git.git_log"),
        ({"tools": {"a": {"from": "git.*"}}}, "tools.a.from", "expected one tool, such as git.git_log"),
        ({"tools": {"a": {"form": "git.x"}}}, "tools.a", "unknown field form (did you mean from?)"),
        ({"tools": {"a": {"title": "x"}}}, "tools.a", "expected exactly one of from, script"),
        ({"tools": {"a": {"from": "git.x", "annotations": {"readOnly": True}}}}, "tools.a.annotations", "readOnlyHint"),
        ({"tools": {"a": 3}}, "tools.a", "expected text or an object"),
        ({"tool": {"a": "git.x"}}, "", "unknown field tool (did you mean tools?)"),
        ({"tools": {"a": "git.x"}, "rights": "owner"}, "rights", 'expected "definer" or "caller"'),
        ({"tools": {"a": "git.x"}, "address": "mcp://x"}, "address", "upstream"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(fields: dict[str, object], place: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(toolset(**fields).encode(), "release.json")
    assert raised.value.path == place and words in raised.value.message


@pytest.mark.parametrize(
    ("given", "is_listed"),
    [
        ({"destructiveHint": True}, True),
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": False}, False),
        ({"readOnlyHint": True}, False),
        ({"idempotentHint": True}, False),
        ({"openWorldHint": False}, False),
        ({"title": "Push"}, True),
    ],
)
def test_a_hint_may_only_become_stricter(tmp_path: Path, given: dict[str, object], is_listed: bool) -> None:
    tools = {"push": {"from": "git.git_push", "annotations": given}, "clock": "time.now"}
    hub = hub_with(tmp_path, {"release.json": toolset(tools=tools)}).as_operator()
    assert ("push" in listed(hub)) is is_listed and "clock" in listed(hub)
    assert bool(problems(hub)) is not is_listed
    hub.close()


NEAREST = {
    "include.0": "gti.git_log matches no tool: there is no server gti; did you mean git.git_log?",
    "include.1": "git.git_lgo matches no tool; did you mean git.git_log?",
    "include.2": "gti matches no tool: there is no server gti; did you mean git?",
    "exclude.0": "git.git_psuh matches no tool; did you mean git.git_push?",
    "tools.a": "not listed: git has no tool 'git_lgo'; did you mean git.git_log?",
    "tools.b": "not listed: the origin has no argument repo_pth; did you mean repo_path?",
    "resources.0": "bok://* matches no resource; did you mean book://*?",
    "resources.1": "book://pge matches no resource; did you mean book://page?",
    "resources.2": "boks.* matches no resource: there is no server boks; did you mean book.*?",
    "resources.3": "book.book://pge matches no resource; did you mean book.book://page?",
    "resources.4": "git matches no resource: git has none",
    "prompts.0": "book.aks matches no prompt; did you mean book.ask?",
    "prompts.1": "boks.ask matches no prompt: there is no server boks; did you mean book.ask?",
}
BOOK = {
    "resources": {"page": {"uri": "book://page", "name": "page", "text": "x"}},
    "prompts": {"ask": {"messages": [{"content": "x"}]}},
}


def test_every_word_that_matches_nothing_names_the_nearest_one(tmp_path: Path) -> None:
    wrong = toolset(
        include=["gti.git_log", "git.git_lgo", "gti", "git"],
        exclude=["git.git_psuh"],
        tools={"a": "git.git_lgo", "b": {"from": "git.git_log", "arguments": {"repo_pth": {"value": 1}}}},
        resources=["bok://*", "book://pge", "boks.*", "book.book://pge", "git"],
        prompts=["book.aks", "boks.ask"],
    )
    hub = hub_with(tmp_path, {"book.json": orjson.dumps(BOOK).decode(), "release.json": wrong})
    assert problems(hub) == NEAREST
    hub.close()


@pytest.mark.parametrize("fields", [{"search": True}, {"listing": {"search": True}}])
def test_a_toolset_lists_the_search_in_place_of_its_tools(tmp_path: Path, fields: dict[str, Any]) -> None:
    """TOOLSETS section 1: `search` stands beside the tools; in `listing`, as at other servers, it means the same."""
    hub = hub_with(tmp_path, {"release.json": toolset(include=["git.*"], **fields)})
    assert set(listed(hub)) == {"search_tools", "call_tool"}
    assert hub.call("release", "status").text == "clean"
    hub.close()


@pytest.mark.parametrize("fields", [{"scripts": "also"}, {"listing": {"scripts": "also"}}])
def test_a_toolset_lists_the_tools_of_scripts(tmp_path: Path, fields: dict[str, Any]) -> None:
    hub = hub_with(tmp_path, {"release.json": toolset(include=["git.status"], **fields)})
    assert set(listed(hub)) == {"find_tools", "run_script", "status"}
    hub.close()


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (toolset(include=["git.*"], search=True, listing={"search": True}), "listing.search", "expected it once"),
        (toolset(include=["git.*"], scripts="of"), "scripts", "off"),
        (toolset(include=["git.*"], search="yes"), "search", "true or false"),
        ('{"search": true}', "search", '"kind": "toolset"'),
    ],
)
def test_a_wrong_listing_of_a_toolset_is_refused_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text.encode(), "release.json")
    assert raised.value.path == place and words in raised.value.message
