"""Scripts call the tools of a server, a toolset and all servers, and their types are checked before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from patchbay.activity.records import Filter
from patchbay.boot import change_names
from patchbay.errors import ToolFailed
from patchbay.scripting import runs
from patchbay.scripting.front import KEPT_AS
from patchbay.scripting.interpreters import Interpreters
from tests.hubs import MODERN, Hub
from tests.scripting.hubs import failure, script, scripted_hub, value


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = scripted_hub(tmp_path_factory.mktemp("runs"))
    store = found.catalogue.store
    text = json.dumps({"scripts": "only", "always": ["git__log"]}).encode()
    change_names(store, {"variables/listing": store.blobs.put(text)}, "tests", "scripts at /mcp")
    found.catalogue.refresh()
    yield found
    found.close()


def names(hub: Hub, server: str) -> list[str]:
    return [one["name"] for one in hub.modern(server, "tools/list").result["tools"]]


def test_the_two_tools_are_listed_beside_the_others_or_alone(hub: Hub) -> None:
    assert names(hub, "git") == ["find_tools", "run_script", "log", "close", "meet", "large", "note", "fail", "relay"]
    assert names(hub, "release") == ["find_tools", "run_script"]
    assert names(hub, "") == ["find_tools", "run_script", "git__log"]
    assert hub.call("release", "history", {"count": 1}).result["isError"] is False


def test_find_tools_gives_typed_functions_by_module(hub: Hub) -> None:
    found = hub.call("git", "find_tools", {"query": "commits"}).text
    head = "async def log(*, count: int = 20, author: str | None = ...) -> list[dict[str, str]]:"
    assert found == f"# import git\n\n{head}\n    'Return the last commits.'"
    assert "async def shut(*, issue: int) -> Any:" in hub.call("release", "find_tools", {"query": "close"}).text
    everything = hub.call("", "find_tools", {"query": "", "limit": 50}, MODERN).text
    assert "# import git\n" in everything and "# import release\n" in everything
    assert "No tool has any of these words" in hub.call("git", "find_tools", {"query": "zebra"}).text


def test_a_script_returns_the_value_of_its_last_expression_what_it_printed_and_its_calls(hub: Hub) -> None:
    answer = script(
        hub, "git", 'import git\nfound = await git.log(count=2)\nprint("two")\n[one["sha"] for one in found]'
    )
    assert [one["text"] for one in answer.result["content"]] == ["two\n", '["0","1"]']
    structured = answer.result["structuredContent"]
    assert structured["value"] == ["0", "1"] and len(structured["run"]) == 16
    assert [(one["tool"], one["line"]) for one in structured["calls"]] == [("git.log", 2)]


def test_a_script_of_a_toolset_uses_the_names_of_the_toolset(hub: Hub) -> None:
    code = "import release\nfound = await release.history(count=1)\nawait release.shut(issue=int(found[0]['sha']))"
    assert value(script(hub, "release", code)) == "closed 0"


def test_a_script_of_all_servers_has_a_module_for_each(hub: Hub) -> None:
    code = "import git, release\n[await git.close(number=1), await release.shut(issue=2)]"
    assert value(script(hub, "", code)) == ["closed 1", "closed 2"]


def test_wrong_types_are_told_with_their_lines_and_no_call_is_made(hub: Hub) -> None:
    code = 'import git\nawait git.close(number=1)\nawait git.close(number="2")\nawait git.closed(number=3)'
    before = len(recorded(hub))
    said = failure(script(hub, "git", code))
    assert said.startswith("The script does not fit its tools. No call was made.\nline 3: ")
    assert "Expected `int`" in said and "line 4: Module `git` has no member `closed`" in said
    assert len(recorded(hub)) == before


def recorded(hub: Hub) -> list[str]:
    """The calls that tools got from scripts."""
    return [one.name for one in hub.activity.recent(Filter(), 1000).records if one.way == "script"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import git\ngit.close(number=1)", "is not awaited"),
        ("x = (", "line 1"),
        ('import git\n(await git.log())[0]["sha"].nothing', "line 2"),
        ("import socket", "Cannot resolve imported module"),
        ("import git\nawait git.close(1)", "Too many positional arguments"),
    ],
)
def test_what_cannot_run_is_refused_before(hub: Hub, code: str, said: str) -> None:
    text = failure(script(hub, "git", code))
    assert "No call was made." in text and said in text


def test_calls_that_are_gathered_run_at_the_same_time(hub: Hub) -> None:
    code = 'import asyncio, git\nawait asyncio.gather(*[git.meet(name=one) for one in ("a", "b", "c")])'
    assert value(script(hub, "git", code)) == ["a", "b", "c"]


def test_a_failed_call_is_an_exception_that_a_script_can_handle(hub: Hub) -> None:
    handled = "try:\n    await git.close(number=13)\nexcept RuntimeError as problem:\n    said = str(problem)"
    code = f"import git\n{handled}\nsaid"
    assert value(script(hub, "git", code)) == "git.close: ValueError: unlucky"
    text = failure(script(hub, "git", "import git\nawait git.close(number=1)\nawait git.close(number=13)"))
    assert text.startswith(
        "line 3: RuntimeError: git.close: ValueError: unlucky\n2 calls were made: git.close (line 2)"
    )
    assert text.endswith("git.close (line 3, failed)")


def test_inputs_are_variables_of_the_script(hub: Hub) -> None:
    assert value(script(hub, "git", "sum(numbers)", {"numbers": [1, 2, 3]})) == 6
    assert "write 'class_'" in failure(script(hub, "git", "1", {"class": 1}))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("{(1, 2)}", [[1, 2]]),
        ("{1: 'a'}", {"1": "a"}),
        ("import datetime\ndatetime.date(2026, 1, 2)", "2026-01-02"),
        ("2 ** 60", 2**60),
        ("x = 1", None),
        ("", None),
    ],
)
def test_a_value_becomes_json(hub: Hub, code: str, expected: object) -> None:
    assert value(script(hub, "git", code)) == expected


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("float('nan')", "the number nan"),
        ("b'x'", "the type bytes"),
        ("{(1, 2): 3}", "a key of the type tuple"),
        ("x = []\nfor number in range(10000):\n    x = [x]\nx", "more than 254 values"),
    ],
)
def test_a_value_that_json_cannot_say_is_refused_with_the_reason(hub: Hub, code: str, said: str) -> None:
    assert said in failure(script(hub, "git", code))


@pytest.mark.parametrize("step", ["modules_of", "ScriptRun"])
def test_a_run_that_cannot_begin_keeps_no_place(hub: Hub, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*given: object, **more: object) -> None:
        raise ToolFailed("it cannot begin")

    with monkeypatch.context() as changed:
        changed.setattr(runs, step, fail)
        assert failure(script(hub, "git", "1")) == "it cannot begin"
    pool: Interpreters = hub.catalogue.hub.kept(KEPT_AS, dict).interpreters
    assert pool.count() == 0


def test_sleeps_of_a_script_run_at_the_same_time(hub: Hub) -> None:
    code = "import asyncio, time\nawait asyncio.gather(*[asyncio.sleep(0.01) for _ in range(20)])\ntime.sleep(0.01)\n1"
    assert value(script(hub, "git", code)) == 1


def test_a_script_at_a_pinned_version_calls_that_version(hub: Hub) -> None:
    version = hub.catalogue.find("git").version
    assert value(script(hub, f"git@{version}", "import git\nawait git.close(number=4)")) == "closed 4"
