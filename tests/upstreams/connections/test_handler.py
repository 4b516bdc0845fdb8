"""Mounted servers: real upstream processes and real callers of old and new revisions, with a hub in between."""

from __future__ import annotations

import html
import json
import os
import pwd
import shlex
import sys
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay.activation import TASKS
from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.events import Log, Progress
from patchbay.processes.confinement.programs import active_program_protections
from patchbay.processes.confinement.protections import ALL
from tests.client.reaching import SCRIPTED, text
from tests.hubs import BOTH, sse_messages
from tests.interaction.programs import Hub, running_hub
from tests.waiting import BOUND, until

HERE = Path(__file__).parent
ERAS = ("legacy", "modern")
UPSTREAMS = ("legacy", "modern")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Another hub, in its own process, that serves `work`."""
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "work.py").write_text((HERE / "upstream_definition.py").read_text("utf-8"), "utf-8")
    # Inside the hub, so that a cancelled function can still report.
    (folder / "work.mcp.json").write_text('{"isolation": "inline"}', "utf-8")
    with running_hub(folder / "hub", [folder / "work.py", folder / "work.mcp.json"]) as hub:
        yield hub


@pytest.fixture(scope="module")
def hub(upstream: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub that mounts it: as `legacy` and `modern`, and the scripted program as `piped`."""
    folder = tmp_path_factory.mktemp("mounting")
    command = f"{shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPTED))}"
    mounts: dict[str, Any] = {era: {"address": upstream.endpoint("work"), "era": era} for era in UPSTREAMS}
    mounts["piped"] = {"address": f"mcp+stdio:{command}"}
    for name, fields in mounts.items():
        (folder / f"{name}.json").write_text(json.dumps({"kind": "upstream", **fields}), "utf-8")
    with running_hub(folder / "hub", [folder / f"{name}.json" for name in mounts]) as hub:
        for name in mounts:
            with opened(hub, name) as caller:
                until(caller.list_tools, f"the tools of {name}")
        yield hub


def opened(hub: Hub, name: str, era: Any = "modern", **options: Any) -> Connection:
    """A caller of one mounted server."""
    return Connection.open(Http(hub.endpoint(name)), era=era, **options)


def finish(running: Generator[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a request whose messages do not matter."""
    while True:
        try:
            next(running)
        except StopIteration as end:
            return dict(end.value)


def answering(value: str) -> Any:
    """Answers every question with this value."""

    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"value": f"{params['message']} {value}"}}

    return ask


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_lists_and_results_are_those_of_the_upstream(upstream: Hub, hub: Hub, name: str, era: str) -> None:
    with opened(upstream, "work", era) as direct, opened(hub, name, era) as through:
        assert through.list_tools() == direct.list_tools()
        arguments = {"name": "Ada"}
        assert through.call_tool("greet", arguments)["content"] == direct.call_tool("greet", arguments)["content"]
        wrong = direct.call_tool("greet", {"name": 5})
        assert through.call_tool("greet", {"name": 5})["content"] == wrong["content"]


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_progress_and_logs_pass_through(hub: Hub, name: str, era: str) -> None:
    heard: list[Any] = []
    with opened(hub, name, era, log_level="info") as caller:
        assert text(caller.call_tool("steps", on_event=heard.append)) == "done"
    told = [item for item in heard if isinstance(item, Progress)]
    assert [(item.progress, item.total, item.message) for item in told][-1] == (3, 3, "step 3")
    assert [item.data for item in heard if isinstance(item, Log)] == ["a line for all callers"]


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_question_reaches_the_caller_and_its_answer_the_upstream(hub: Hub, name: str, era: str) -> None:
    with opened(hub, name, era, ask=answering("Ada")) as caller:
        assert text(caller.call_tool("ask")) == "Your name? Ada"
        assert text(caller.call_tool("ask", {"first": "town"})) == "Your town? Ada, Your name? Ada"


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_call_with_a_question_fails_for_a_caller_that_cannot_answer(hub: Hub, name: str, era: str) -> None:
    with opened(hub, name, era) as caller:
        try:
            answer = text(caller.call_tool("ask"))
        except McpFailure as problem:
            assert problem.code == -32021
            answer = problem.message
    assert "elicitation" in answer


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", [*UPSTREAMS, "piped"])
def test_callers_get_their_own_questions_only(hub: Hub, name: str, era: str) -> None:
    """Many callers ask through one mount at the same time."""

    def called(who: str) -> str:
        with opened(hub, name, era, ask=answering(who)) as caller:
            return "".join(text(caller.call_tool("ask")) for _ in range(3))

    names = [f"caller-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as crowd:
        answers = list(crowd.map(called, names))
    for who, answer in zip(names, answers, strict=True):
        assert answer.count("caller-") == answer.count(who) == 3


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UPSTREAMS)
@pytest.mark.parametrize("silent", [False, True])
def test_cancelling_a_call_cancels_it_upstream(hub: Hub, tmp_path: Path, name: str, era: str, silent: bool) -> None:
    """Also where the caller and the upstream cancel by closing a stream, and where no event came yet."""
    mark = tmp_path / "mark"
    with opened(hub, name, era) as caller:
        call = {"name": "wait", "arguments": {"path": str(mark), "silent": silent}}
        running = caller.request("tools/call", call, pauses=iter([0.1] * 999))
        until(lambda: next(running) is not None and mark.exists() and mark.read_text() == "begun", "the call to begin")
        running.close()
        until(lambda: mark.read_text() == "cancelled", "the upstream to hear of it")


@pytest.mark.process
def test_a_stream_that_the_upstream_closes_before_the_answer_is_closed_for_the_caller_too(
    hub: Hub, tmp_path: Path
) -> None:
    """SEP-1699: the caller comes back with the id of the last event, and finds the answer."""
    end, url = tmp_path / "end", hub.endpoint("legacy")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    call = {"name": "resumable", "arguments": {"path": str(end)}}
    with httpx2.Client(headers={"Accept": BOTH, "MCP-Protocol-Version": "2025-11-25"}, timeout=BOUND) as client:
        opening = client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
        first = client.post(
            url, json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, headers=session
        )
        assert sse_messages(first.content) == [] and "retry: " in first.text, "the stream ended while the tool waited"
        end.touch()
        last = first.text.partition("id: ")[2].partition("\n")[0]
        rest = client.get(url, headers={**session, "Last-Event-ID": last})
    assert sse_messages(rest.content)[-1]["result"]["content"] == [{"type": "text", "text": "it went on"}]


@pytest.mark.process
@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_changed_list_passes_through(upstream: Hub, hub: Hub, name: str) -> None:
    """The tool has a different name for each mount: both mounts show one upstream, each with its own delay."""
    heard: list[str] = []
    fresh = f"fresh_{name}"
    file = upstream.servers / "work.py"
    before = file.read_text("utf-8")
    with opened(hub, name, "modern", listener=lambda method, _: heard.append(method)) as caller, caller.listen():

        def is_listed() -> bool:
            return fresh in {tool["name"] for tool in caller.list_tools()}

        assert not is_listed()
        try:
            file.write_text(before + f'\n\ndef {fresh}() -> str:\n    """New."""\n    return "fresh"\n', "utf-8")
            until(lambda: "notifications/tools/list_changed" in heard, "the notification of the change")
            until(is_listed, "the new tool in the list")
            assert text(caller.call_tool(fresh)) == "fresh"
        finally:
            file.write_text(before, "utf-8")
        until(lambda: not is_listed(), "the list without the tool")


@pytest.mark.process
def test_an_error_of_the_upstream_is_passed_on_unchanged(hub: Hub) -> None:
    with opened(hub, "piped") as caller, pytest.raises(McpFailure) as caught:
        caller.call_tool("error")
    assert (caught.value.code, caught.value.data) == (-32007, {"why": "because"})


@pytest.mark.process
def test_a_result_without_content_is_empty(hub: Hub) -> None:
    with opened(hub, "piped") as caller:
        answer = caller.call_tool("broken")
        assert answer["content"] == []
        assert caller.call_tool("echo", {"a": [1]})["content"] == [{"type": "text", "text": '{"a": [1]}'}]


@pytest.mark.process
def test_a_program_that_dies_under_a_call_fails_it_and_comes_back(hub: Hub) -> None:
    with opened(hub, "piped") as caller:
        answer = caller.call_tool("vanish")
        assert answer["isError"] is True
        assert "it was ended by signal 9 (SIGKILL)" in text(answer)
        assert "stderr" not in text(answer)
        until(lambda: not caller.call_tool("echo").get("isError"), "the program to be started again")


@pytest.mark.process
def test_a_task_of_a_mounted_server_is_found_where_all_servers_are_one(hub: Hub) -> None:
    """In the aggregate, its methods use its server's name, like its tools."""
    with Connection.open(Http(f"{hub.url}/mcp"), era="modern", extensions={TASKS: {}}) as caller:
        made = caller.get_result("tools/call", {"name": "modern.later"})
        assert made["resultType"] == "task" and made["taskId"].startswith("modern.")
        task = {"taskId": made["taskId"]}
        done = until(
            lambda: (seen := caller.get_result("tasks/get", task))["status"] == "completed" and seen, "its end"
        )
        assert (done["taskId"], text(done["result"])) == (made["taskId"], "it lasted")
        assert caller.get_result("tasks/cancel", task)["resultType"] == "complete"
        for unknown in ("modern.nothing-of-this-name", "nowhere.nothing-of-this-name"):
            with pytest.raises(McpFailure) as caught:
                caller.get_result("tasks/get", {"taskId": unknown})
            assert caught.value.code == -32602


@pytest.mark.process
def test_a_closed_stream_of_the_upstream_makes_no_task_whose_methods_it_would_not_know(
    hub: Hub, tmp_path: Path
) -> None:
    with Connection.open(Http(hub.endpoint("legacy")), era="modern", extensions={TASKS: {}}) as caller:
        call = {"name": "resumable", "arguments": {"path": str(tmp_path / "end")}}
        running = caller.request("tools/call", call, pauses=iter([1.0] * 999))
        next(running)
        (tmp_path / "end").touch()
        assert text(finish(running)) == "it went on"


@pytest.mark.process
def test_the_page_of_a_mounted_program_says_which_program_runs_as_which_user_and_with_which_rights(hub: Hub) -> None:
    """Issue 12 item 12: a mount over a pipe is no "nothing of it runs here"."""
    page = httpx2.get(hub.endpoint("piped").replace("/mcp/", "/servers/") + "/settings", timeout=60)
    page.raise_for_status()
    shown = html.unescape(page.text)
    program, user = Path(sys.executable).name, pwd.getpwuid(os.geteuid()).pw_name
    begin = f"program {program} runs on this machine, started by the hub"
    if active_program_protections(ALL):
        assert f"{begin} as {user}: confined" in shown
        assert "It reads neither the files of the hub nor private places of the user" in shown
    else:
        assert f"{begin}: unconfined, with all rights of the hub's user ({user}), its files and its network" in shown
    assert "Nothing of it runs here" not in shown


@pytest.mark.process
def test_the_page_of_a_mounted_address_says_that_the_hub_starts_nothing(upstream: Hub, hub: Hub) -> None:
    page = httpx2.get(hub.endpoint("modern").replace("/mcp/", "/servers/") + "/settings", timeout=60)
    page.raise_for_status()
    place = upstream.endpoint("work").removesuffix("/mcp/work")
    assert f"t {place}, with the rights it has there; the hub starts nothing" in html.unescape(page.text)
