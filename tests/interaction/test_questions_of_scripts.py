"""A tool asks inside a script of three nodes; the official client answers, each request at the next node.

The tools are those of a Python definition in a worker of its own, and of a server that is mounted in an older revision
and in that of 2026-07-28.
Source: issue 55, "Must show"; TOOLSETS section 4.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.nodes import Nodes, running_nodes
from tests.interaction.peers import MODERN
from tests.interaction.programs import running_hub
from tests.scripting.asking import BOOK, DESK
from tests.scripting.closing import words
from tests.serving.running import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

SCRIPTS = {"scripts": "also"}
BOTH = """import asyncio
import SERVER

places = ["A1", "B2", "C3"]
booked = await asyncio.gather(*[SERVER.book(folder=folder, place=one) for one in places])
await SERVER.note(folder=folder, word="after")
booked
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    """Three nodes with the desk, and another hub behind them, whose desk they mount in both eras."""
    folder = tmp_path_factory.mktemp("desks")
    (folder / "desk.py").write_text(DESK)
    own = {"auto_discover": True, "isolation": "process", "writes": [str(folder)]}
    (folder / "desk.mcp.json").write_text(json.dumps(own))
    with running_hub(folder / "behind", [folder / "desk.py", folder / "desk.mcp.json"]) as behind:
        servers = folder / "nodes" / "servers"
        servers.mkdir(parents=True)
        (servers / "desk.py").write_text(DESK)
        (servers / "desk.mcp.json").write_text(json.dumps({**own, "listing": SCRIPTS}))
        for era in ("legacy", "modern"):
            mount = {"kind": "upstream", "address": behind.endpoint("desk"), "era": era, "listing": SCRIPTS}
            (servers / f"{era}.json").write_text(json.dumps(mount))
        with running_nodes(folder / "nodes", postgresql.new_schema(), 3, "--workers", "1") as found:
            for hub in found.hubs:
                for era in ("legacy", "modern"):
                    until_tools_are_listed(f"http://127.0.0.1:{hub.port}/mcp/{era}")
            yield found


@pytest.fixture
def written(nodes: Nodes, tmp_path: Path) -> Path:
    """A folder in which the tools may write."""
    folder = nodes.folder.parent / tmp_path.name
    folder.mkdir()
    return folder


@pytest.mark.parametrize("server", ["desk", "legacy", "modern"])
@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_official_client_answers_the_questions_of_three_calls(
    nodes: Nodes, written: Path, server: str, mode: str
) -> None:
    asked: list[str] = []

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": f"guest{params.message[-3]}"})

    async def conversation() -> Any:
        arguments = {"code": BOTH.replace("SERVER", server), "inputs": {"folder": str(written)}}
        async with nodes.client(server, mode, elicitation_callback=elicit) as (client, _):
            return await client.call_tool("run_script", arguments)

    result = asyncio.run(conversation())
    assert not result.is_error, result.content[0].text
    assert result.structured_content["value"] == ["A1 for guestA", "B2 for guestB", "C3 for guestC"]
    assert sorted(asked) == [
        f"{server}.book (line 5 of the script) asks: Who takes {place}?" for place in ("A1", "B2", "C3")
    ]
    assert sorted(words(written, "booked")) == ["A1:guestA", "B2:guestB", "C3:guestC"]
    assert words(written, "noted") == ["after"]


def send(hub: Hub, folder: Path, **params: Any) -> dict[str, Any]:
    """The result of the script at one node."""
    wanted = {"name": "run_script", "arguments": {"code": BOOK, "inputs": {"folder": str(folder)}}}
    message, headers = modern_request("tools/call", wanted | params, {"elicitation": {"form": {}}})
    known = headers | {"Accept": "application/json, text/event-stream"} | hub.as_operator()
    answer = httpx2.post(f"http://127.0.0.1:{hub.port}/mcp/desk", json=message, headers=known, timeout=BOUND).text
    data = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith(("data: {", "{"))]
    result: dict[str, Any] = json.loads(data[-1])["result"]
    return result


def test_the_answer_may_come_at_another_node_than_the_question(nodes: Nodes, written: Path) -> None:
    first, second, third = nodes.hubs
    asked = send(first, written)
    assert "inputRequests" in asked, asked
    ((key, _),) = asked["inputRequests"].items()
    given = {"inputResponses": {key: {"action": "accept", "content": {"name": "Ann"}}}}
    result = send(second, written, requestState=asked["requestState"], **given)
    assert result["structuredContent"]["value"] == "A1 for Ann"
    until(lambda: words(written, "booked") == ["A1:Ann"], "the call")
    assert words(written, "noted") == ["before", "after"]
    again = send(third, written, **given)
    assert again["isError"] and "has ended" in again["content"][0]["text"]
    assert words(written, "booked") == ["A1:Ann"]
