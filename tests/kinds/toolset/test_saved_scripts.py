"""Scripts as tools of a toolset: listed by their signature, run with the tools of the toolset, part of its version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.activity.records import Filter
from patchbay.cid import cid_of
from patchbay.python_functions.script_texts import SCRIPT_META
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.kinds.toolset.sets import hub_with, listed, problems, toolset, write

SUM = '''import release


async def count_all(repos: list[str], most: int = 10) -> dict[str, int]:
    """Count the commits of repositories."""
    print("counting")
    found = {}
    for repo in repos:
        result = await release.git_log(repo_path=repo, max_count=most)
        found[repo] = result["count"]
    return found
'''
NOTE = 'import release\n\n\nasync def say() -> str:\n    """Say it."""\n    return await release.status()\n'


def with_script(script: str, **shape: Any) -> str:
    return toolset(include=["git.git_log", "git.status", "git.fail"], tools={"count": {"script": script, **shape}})


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"release.json": with_script(SUM), "outer.json": toolset(include=["release.count"])}
    found = hub_with(tmp_path_factory.mktemp("saved"), files)
    yield found
    found.close()


def edit(hub: Hub, script: str, **shape: Any) -> str:
    """Save another script; return the version of the toolset then."""
    write(hub, "release.json", with_script(script, **shape))
    return str(hub.catalogue.find("release").version)


def test_the_signature_is_the_schema_and_the_docstring_the_description(hub: Hub) -> None:
    edit(hub, SUM)
    shown = listed(hub)["count"]
    assert shown["description"] == "Count the commits of repositories."
    assert shown["inputSchema"]["properties"]["most"] == {"type": "integer", "default": 10}
    assert shown["outputSchema"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert shown["_meta"] == {SCRIPT_META: cid_of(SUM.encode())}


def test_a_call_runs_the_script_with_the_tools_of_the_toolset(hub: Hub) -> None:
    edit(hub, SUM)
    answer = hub.modern("release", "tools/call", {"name": "count", "arguments": {"repos": ["/a", "/b"], "most": 3}})
    assert answer.result["structuredContent"] == {"/a": 3, "/b": 3}
    assert answer.result["content"][0]["text"] == "counting\n"
    assert hub.call("outer", "count", {"repos": ["/c"]}).result["structuredContent"] == {"/c": 10}


def test_the_calls_of_a_script_have_records_with_its_run(hub: Hub) -> None:
    edit(hub, SUM)
    hub.call("release", "count", {"repos": ["/a"]})
    newest = hub.activity.recent(Filter(), limit=2).records
    assert [(one.name, one.way) for one in newest] == [("count", "http"), ("git_log", "script")]
    assert newest[0].run == newest[1].run != ""


def test_wrong_arguments_are_refused_before_the_script_runs(hub: Hub) -> None:
    edit(hub, SUM)
    before = len(hub.activity.recent(Filter(tool="git_log"), limit=1000).records)
    assert "repos" in hub.modern("release", "tools/call", {"name": "count", "arguments": {"repos": 5}}).text
    assert len(hub.activity.recent(Filter(tool="git_log"), limit=1000).records) == before


def test_another_script_is_another_version_and_another_digest_and_history_shows_it(hub: Hub) -> None:
    first = edit(hub, SUM)
    digest = hub.catalogue.find("release").tools["count"].digest
    second = edit(hub, SUM.replace('"counting"', '"counting all"'))
    assert second != first and hub.catalogue.find("release").tools["count"].digest != digest
    pinned = hub.modern(f"release@{first}", "tools/call", {"name": "count", "arguments": {"repos": ["/a"]}})
    assert pinned.result["content"][0]["text"] == "counting\n"
    assert hub.call("release", "count", {"repos": ["/a"]}).result["content"][0]["text"] == "counting all\n"


def test_a_script_is_shaped_as_any_tool(hub: Hub) -> None:
    edit(
        hub,
        SUM,
        title="Count",
        arguments={"most": {"value": 2}},
        result="{names: keys}",
        annotations={"openWorldHint": True},
    )
    shown = listed(hub)["count"]
    assert shown["title"] == "Count" and list(shown["inputSchema"]["properties"]) == ["repos"]
    answer = hub.modern("release", "tools/call", {"name": "count", "arguments": {"repos": ["/b", "/a"]}})
    assert answer.result["structuredContent"] == {"names": ["/a", "/b"]}
    edit(hub, SUM, annotations={"readOnlyHint": True})
    assert "looser than the origin says" in problems(hub)["tools.count.annotations.readOnlyHint"]


def test_a_fault_of_a_script_is_a_problem_with_its_line_and_breaks_its_tool_alone(hub: Hub) -> None:
    edit(hub, "import release\n\n\nasync def count(x): ...\n")
    (problem,) = hub.catalogue.find("release").problems
    assert (problem.where, problem.line) == ("tools.count.script", 4)
    assert "the parameter x has no type" in problem.reason and "count" not in listed(hub)
    assert hub.call("release", "status").text == "clean"


def test_a_failure_names_the_line_of_the_script(hub: Hub) -> None:
    edit(hub, "import release\n\n\nasync def count() -> str:\n    return await release.fail()\n")
    failed = hub.call("release", "count")
    assert failed.result["isError"] and "line 5" in failed.text and "no repository here" in failed.text
    edit(hub, "import release\n\n\nasync def count() -> str:\n    return await release.gone()\n")
    assert "line 5: Module `release` has no member `gone`" in hub.call("release", "count").text


def test_a_text_is_the_text_of_the_result_and_nothing_is_nothing(hub: Hub) -> None:
    edit(hub, NOTE)
    assert hub.call("release", "count").result["content"] == [{"type": "text", "text": "clean"}]
    edit(hub, "def count() -> None:\n    pass\n")
    assert hub.call("release", "count").result["content"] == []


def test_a_script_may_be_a_file_beside_the_toolset_which_is_then_no_server(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {"release.json": with_script("count_all.py"), "count_all.py": SUM})
    try:
        assert listed(hub)["count"]["_meta"] == {SCRIPT_META: cid_of(SUM.encode())}
        assert hub.catalogue.find_any("count_all") is None
        kept = json.loads(hub.catalogue.store.blobs.get(hub.catalogue.find("release").definition))
        assert kept["tools"]["count"]["script"] == f"cid://{cid_of(SUM.encode())}"
        write(hub, "count_all.py", NOTE)
        assert hub.call("release", "count").text == "clean"
        assert hub.catalogue.find_any("count_all") is None
    finally:
        hub.close()


def test_a_script_may_be_content_of_the_hub(hub: Hub) -> None:
    cid = hub.catalogue.store.blobs.put(NOTE.encode())
    edit(hub, f"cid://{cid}")
    assert hub.call("release", "count").text == "clean"
    lost = cid_of(b"def lost(): ...")
    edit(hub, f"cid://{lost}")
    assert problems(hub)["tools.count.script"] == f"not listed: this hub has no content cid://{lost}"


def test_a_caller_needs_the_right_on_what_the_script_calls(tmp_path: Path) -> None:
    git = 'def status() -> str:\n    return "clean"\n'
    found = team_hub(tmp_path, {"git.py": git, "release.json": with_script(NOTE)})
    try:
        key = new_key(found, "ann")
        set_grants(found, {"grants": [{"to": ["key:ann"], "may": ["call"], "on": ["release.count"]}]})
        params = {"name": "count", "arguments": {}}
        refused = found.modern("release", "tools/call", params, headers=key)
        assert "line 6: Module `release` has no member `status`" in refused.text
        set_grants(found, {"grants": [{"to": ["key:ann"], "may": ["call"], "on": ["release"]}]})
        assert found.modern("release", "tools/call", params, headers=key).text == "clean"
    finally:
        found.close()
