"""A script that waits for an approval goes on at another node, each call once; the official client is asked once.

Source: issue 55, "Must show".
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from patchbay.scripting.suspended.run_seals import UNKNOWN_RESULT
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import Nodes, running_nodes
from tests.interaction.peers import MODERN
from tests.scripting.closing import CODE, FILES, FORMS
from tests.scripting.test_runs_as_tasks import KNOWS
from tests.scripting.test_saved_runs import desk
from tests.serving.running import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

HOLDING = '''"""Holds its first call."""

import os
import time
from pathlib import Path


def close(folder: str, number: int) -> str:
    """Close an issue; the first one after a file is there."""
    with (Path(folder) / "closed").open("a") as file:
        file.write(f"{number} ")
    if number == 1:
        (Path(folder) / "holder").write_text(str(os.getpid()))
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)
    return f"closed {number}"
'''
HELD = """import asyncio
import holding


async def close(number):
    try:
        return await holding.close(folder=folder, number=number)
    except RuntimeError as problem:
        return str(problem)


await asyncio.gather(*[close(number) for number in (1, 2, 3)])
"""


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    servers = tmp_path / "nodes" / "servers"
    servers.mkdir(parents=True)
    files = FILES | {"holding.py": HOLDING, "holding.mcp.json": FILES["issues.mcp.json"], "desk.json": desk("off")}
    for name, text in files.items():
        (servers / name).write_text(text)
    with running_nodes(tmp_path / "nodes", postgresql.new_schema(), 3, "--workers", "1") as found:
        yield found


def run_script(hub: Hub, server: str, code: str, folder: Path, count: int) -> Any:
    """The result of a script at one node; None if the node was killed meanwhile."""
    arguments = {"code": code, "inputs": {"folder": str(folder), "count": count}}
    return send(hub, server, "tools/call", {"name": "run_script", "arguments": arguments})


def send(hub: Hub, server: str, method: str, params: Any, capabilities: Any = None) -> Any:
    """The result of a request of the operator at one node; None if the node was killed meanwhile."""
    message, headers = modern_request(method, params, capabilities)
    known = headers | {"Accept": "application/json, text/event-stream"} | hub.as_operator()
    try:
        answer = httpx2.post(
            f"http://127.0.0.1:{hub.port}/mcp/{server}", json=message, headers=known, timeout=BOUND
        ).text
    except httpx2.HTTPError:
        return None
    data = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith(("data: {", "{"))]
    return json.loads(data[-1])["result"]


def begin(hub: Hub, server: str, code: str, folder: Path) -> threading.Thread:
    """Begin a script at one node, whose caller waits."""
    thread = threading.Thread(target=run_script, args=(hub, server, code, folder, 3))
    thread.start()
    return thread


def waiting(hub: Hub) -> list[dict[str, Any]]:
    """The calls that wait, as a node tells its operator."""
    headers = hub.as_operator() | {"Accept": "application/json"}
    found = httpx2.get(f"http://127.0.0.1:{hub.port}/approvals", headers=headers, timeout=BOUND).json()
    return [one for one in found["approvals"] if one["waits"]]


def approve(hub: Hub) -> None:
    """Approve the calls of the one question that waits."""
    (question,) = {one["question"] for one in waiting(hub)}
    headers = hub.as_operator() | {"Accept": "application/json"}
    data = {"id": question, "do": "approve"}
    answer = httpx2.post(f"http://127.0.0.1:{hub.port}/approvals", data=data, headers=headers, timeout=BOUND)
    assert answer.status_code == 200, answer.text


def kill(hub: Hub) -> None:
    """Kill a node with all its processes."""
    workers = hub.workers()
    os.kill(hub.process.pid, signal.SIGKILL)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)


def words(folder: Path, file: str) -> list[str]:
    return (folder / file).read_text().split() if (folder / file).exists() else []


def test_a_script_goes_on_at_another_node_after_its_own_was_killed(nodes: Nodes, tmp_path: Path) -> None:
    """55.3"""
    first, second, third = nodes.hubs
    thread = begin(first, "issues", CODE, tmp_path)
    until(lambda: len(waiting(second)) == 3, "three calls that wait")
    kill(first)
    thread.join(BOUND)
    approve(second)
    until(lambda: len(words(tmp_path, "closed")) == 3, "the calls")
    result = run_script(third, "issues", CODE, tmp_path, 3)
    assert result["structuredContent"]["value"] == ["closed 1", "closed 2", "closed 3"], result
    assert sorted(words(tmp_path, "closed")) == ["1", "2", "3"] and words(tmp_path, "found") == ["found"]


def test_a_call_that_a_killed_node_was_making_is_not_made_again_and_the_others_go_on(
    nodes: Nodes, tmp_path: Path
) -> None:
    """55.3"""
    thread = begin(nodes.hubs[0], "holding", HELD, tmp_path)
    until(lambda: len(waiting(nodes.hubs[1])) == 3, "three calls that wait")
    approve(nodes.hubs[1])
    until(lambda: words(tmp_path, "holder") and len(words(tmp_path, "closed")) == 3, "all calls, one of which holds")
    holder = int(words(tmp_path, "holder")[0])
    (own,) = (hub for hub in nodes.hubs if holder in hub.workers())
    kill(own)
    (tmp_path / "go").touch()
    other = next(hub for hub in nodes.hubs if hub is not own)
    result = run_script(other, "holding", HELD, tmp_path, 3)
    assert result["structuredContent"]["value"][0] == f"holding.close: {UNKNOWN_RESULT}", result
    assert sorted(words(tmp_path, "closed")) == ["1", "2", "3"], "each once"
    thread.join(BOUND)


def test_a_saved_script_goes_on_at_another_node_after_its_own_was_killed(nodes: Nodes, tmp_path: Path) -> None:
    """55.3"""
    first, second, third = nodes.hubs
    wanted = {"name": "tidy", "arguments": {"folder": str(tmp_path)}}
    thread = threading.Thread(target=send, args=(first, "desk", "tools/call", wanted))
    thread.start()
    until(lambda: waiting(second), "the call that waits")
    kill(first)
    thread.join(BOUND)
    approve(second)
    until(lambda: words(tmp_path, "closed") == ["1"], "the call")
    result = send(third, "desk", "tools/call", wanted)
    assert result["content"] == [{"type": "text", "text": "closed 1"}] and words(tmp_path, "closed") == ["1"]


@pytest.mark.parametrize("capabilities", [KNOWS, KNOWS | FORMS], ids=["working", "asking"])
def test_a_task_of_a_script_has_its_value_after_a_decision_at_another_node(
    nodes: Nodes, tmp_path: Path, capabilities: Any
) -> None:
    first, second, third = nodes.hubs
    arguments = {"code": CODE, "inputs": {"folder": str(tmp_path), "count": 3}}
    made = send(first, "issues", "tools/call", {"name": "run_script", "arguments": arguments}, capabilities)
    assert made["resultType"] == "task", made
    until(lambda: len(waiting(second)) == 3, "three calls that wait")
    wanted = {"taskId": made["taskId"]}

    def seen() -> Any:
        return send(third, "issues", "tasks/get", wanted, capabilities)

    if "elicitation" in capabilities:
        until(lambda: seen()["status"] == "input_required", "the question of the task")
        (key,) = seen()["inputRequests"]
        answers = {"inputResponses": {key: {"action": "accept", "content": {}}}}
        send(second, "issues", "tasks/update", wanted | answers, capabilities)
    else:
        assert seen()["status"] == "working"
        approve(second)
    until(lambda: seen()["status"] == "completed", "the end of the task")
    assert seen()["result"]["structuredContent"]["value"] == ["closed 1", "closed 2", "closed 3"]
    assert sorted(words(tmp_path, "closed")) == ["1", "2", "3"]


def test_a_task_that_is_cancelled_at_another_node_cancels_its_script(nodes: Nodes, tmp_path: Path) -> None:
    first, second, third = nodes.hubs
    arguments = {"code": CODE, "inputs": {"folder": str(tmp_path), "count": 3}}
    made = send(first, "issues", "tools/call", {"name": "run_script", "arguments": arguments}, KNOWS)
    until(lambda: len(waiting(second)) == 3, "three calls that wait")
    run = waiting(second)[0]["run"]
    send(second, "issues", "tasks/cancel", {"taskId": made["taskId"]}, KNOWS)
    until(lambda: not waiting(third), "the end of the question")
    shown = httpx2.get(f"http://127.0.0.1:{third.port}/activity/runs/{run}.json", headers=third.as_operator()).json()
    assert shown["state"] == "cancelled" and words(tmp_path, "closed") == []
    status = send(third, "issues", "tasks/get", {"taskId": made["taskId"]}, KNOWS)["status"]
    assert status == "cancelled"


def test_a_cancellation_and_an_approval_at_two_nodes_have_one_winner(nodes: Nodes, tmp_path: Path) -> None:
    """Both come at once: each call is made at most once, and a cancelled run has no value."""
    first, second, third = nodes.hubs
    thread = begin(first, "issues", CODE, tmp_path)
    until(lambda: len(waiting(second)) == 3, "three calls that wait")
    asked = waiting(second)[0]

    def post(hub: Hub, path: str, **fields: str) -> None:
        headers = hub.as_operator() | {"Accept": "application/json"}
        httpx2.post(f"http://127.0.0.1:{hub.port}{path}", data=fields, headers=headers, timeout=BOUND)

    approves = threading.Thread(
        target=post, args=(second, "/approvals"), kwargs={"id": asked["question"], "do": "approve"}
    )
    approves.start()
    post(third, f"/activity/runs/{asked['run']}", do="cancel")
    approves.join(BOUND)
    thread.join(BOUND)
    shown = httpx2.get(
        f"http://127.0.0.1:{second.port}/activity/runs/{asked['run']}.json", headers=second.as_operator()
    ).json()
    made = words(tmp_path, "closed")
    assert len(made) == len(set(made)) and shown["state"] in ("cancelled", "done")
    assert (shown["outcome"]["value"] is None) == (shown["state"] == "cancelled")
    assert waiting(first) == []


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_official_client_is_asked_one_question_about_fifty_calls(nodes: Nodes, tmp_path: Path, mode: str) -> None:
    """55.4"""
    questions: list[Any] = []

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params)
        return ElicitResult(action="accept", content={"call_13": False})

    async def conversation() -> Any:
        inputs = {"folder": str(tmp_path), "count": 50}
        async with nodes.client("issues", mode, elicitation_callback=elicit) as (client, _):
            return await client.call_tool("run_script", {"code": CODE, "inputs": inputs})

    result = asyncio.run(conversation())
    assert not result.is_error, result
    assert len(questions) == 1 and len(questions[0].requested_schema["properties"]) == 50
    said = result.structured_content["value"]
    assert said[12] == "issues.close: did not run: its approval was refused"
    assert sum(one.startswith("closed") for one in said) == 49
    rows = [one for one in result.structured_content["calls"] if one.get("refused")]
    assert len(rows) == 1 and sorted(map(int, words(tmp_path, "closed"))) == [*range(1, 13), *range(14, 51)]
