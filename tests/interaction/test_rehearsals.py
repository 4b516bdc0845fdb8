"""Independent clients are asked once, at the rehearsal of a script, and its run asks nothing: both eras, and FastMCP.

Source: issue 55, item 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from tests.interaction.peers import MODERN
from tests.interaction.programs import Hub, running_hub
from tests.scripting.closing import FILES, PLAIN, words
from tests.waiting import BOUND

pytestmark = pytest.mark.process

CallTool = Callable[[str, dict[str, Any]], Awaitable[Any]]
Work = Callable[[CallTool], Awaitable[None]]
Client = Callable[[Hub, list[str], Work], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("rehearsals")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with running_hub(folder / "hub", [folder / name for name in FILES], enable="") as found:
        yield found


def official(mode: str) -> Client:
    """The official SDK's client, which accepts each form with its defaults."""

    async def use(hub: Hub, questions: list[str], work: Work) -> None:
        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            questions.append(params.message)
            return ElicitResult(action="accept", content={})

        async with mcp.Client(
            hub.endpoint("issues"), mode=mode, read_timeout_seconds=BOUND, elicitation_callback=elicit
        ) as client:
            await work(client.call_tool)

    return use


async def of_fastmcp(hub: Hub, questions: list[str], work: Work) -> None:
    """FastMCP's client, which accepts each form with its defaults."""

    async def elicit(message: str, *_: Any) -> Any:
        questions.append(message)
        return fastmcp.client.elicitation.ElicitResult.model_validate({"action": "accept", "content": {}})

    async with fastmcp.Client(hub.endpoint("issues"), timeout=BOUND, elicitation_handler=elicit) as client:
        await work(client.call_tool)


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(official("legacy"), id="official-sdk-2025-11-25"),
        pytest.param(official(MODERN), id="official-sdk-2026-07-28"),
        pytest.param(of_fastmcp, id="fastmcp"),
    ],
)
def test_a_client_is_asked_at_the_rehearsal_and_not_at_the_run(hub: Hub, client: Client, tmp_path: Path) -> None:
    """55.4"""
    questions: list[str] = []
    arguments = {"code": PLAIN, "inputs": {"folder": str(tmp_path), "count": 50}}

    async def work(call_tool: CallTool) -> None:
        rehearsed = structured(await call_tool("run_script", {**arguments, "rehearse": True}))["rehearsed"]
        assert [one["approval"] for one in rehearsed] == ["approved"] * 50
        assert len(questions) == 1 and "these 50 calls of issues.close" in questions[0] and words(tmp_path) == []
        assert len(structured(await call_tool("run_script", arguments))["value"]) == 50

    asyncio.run(client(hub, questions, work))
    assert len(questions) == 1 and len(words(tmp_path)) == 50


def structured(result: Any) -> dict[str, Any]:
    """The structured content of a result, by the name that each client has for it."""
    names = ("structured_content", "structuredContent")
    found: dict[str, Any] = next(getattr(result, name) for name in names if hasattr(result, name))
    return found
