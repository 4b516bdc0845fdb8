"""Independent clients are asked for the approval of a call: FastMCP's, and the official SDK's in both eras.

Sources: ACCESS section 5; issue 16, "Approval" of what it must show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from tests.interaction.peers import MODERN, texts
from tests.interaction.programs import Hub, running_hub
from tests.waiting import BOUND

pytestmark = pytest.mark.process

SAFE = '''"""A safe."""

from pathlib import Path


def open_safe(count: str) -> str:
    """Open the safe."""
    with Path(count).open("a") as file:
        file.write("opened ")
    return "opened"
'''
CONFIG = '{"auto_discover": true, "isolation": "inline", "tools": {"open_safe": {"approve": true}}}'

ACCEPTED: dict[str, dict[str, str] | None] = {"accept": {}, "decline": None, "cancel": None}
"""The content of an answer by its action: the form is empty."""

Caller = Callable[[Hub, Path, str, list[str]], str]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("approvals")
    files = [folder / "safe.py", folder / "safe.mcp.json"]
    for file, text in zip(files, (SAFE, CONFIG), strict=True):
        file.write_text(text)
    with running_hub(folder / "hub", files, enable="") as found:
        yield found


def official(mode: str) -> Caller:
    """What the tool says to the official SDK's client, which answers each question with an action."""

    def call_delete(hub: Hub, count: Path, action: str, questions: list[str]) -> str:
        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            questions.append(params.message)
            return ElicitResult.model_validate({"action": action, "content": ACCEPTED[action]})

        async def conversation() -> str:
            async with mcp.Client(
                hub.endpoint("safe"), mode=mode, read_timeout_seconds=BOUND, elicitation_callback=elicit
            ) as client:
                assert client.protocol_version == (MODERN if mode == MODERN else "2025-11-25")
                result = await client.call_tool("open_safe", {"count": str(count)})
                return texts(result.content)

        return asyncio.run(conversation())

    return call_delete


def of_fastmcp(hub: Hub, count: Path, action: str, questions: list[str]) -> str:
    """What the tool says to FastMCP's client, which answers each question with an action."""

    async def elicit(message: str, *_: Any) -> Any:
        questions.append(message)
        return fastmcp.client.elicitation.ElicitResult.model_validate({"action": action, "content": ACCEPTED[action]})

    async def conversation() -> str:
        async with fastmcp.Client(hub.endpoint("safe"), timeout=BOUND, elicitation_handler=elicit) as client:
            result = await client.call_tool("open_safe", {"count": str(count)}, raise_on_error=False)
            return texts(result.content)

    return asyncio.run(conversation())


CLIENTS = [
    pytest.param(official("legacy"), id="official-sdk-2025-11-25"),
    pytest.param(official(MODERN), id="official-sdk-2026-07-28"),
    pytest.param(of_fastmcp, id="fastmcp"),
]


@pytest.mark.parametrize("call_delete", CLIENTS)
def test_a_client_is_asked_once_and_the_approved_call_runs_once(hub: Hub, call_delete: Caller, tmp_path: Path) -> None:
    count, questions = tmp_path / "count", list[str]()
    assert call_delete(hub, count, "accept", questions) == "opened"
    assert count.read_text() == "opened "
    assert len(questions) == 1 and "safe.open_safe" in questions[0] and str(count) in questions[0]
    # The same call needs an approval of its own.
    assert call_delete(hub, count, "accept", questions) == "opened"
    assert count.read_text() == "opened opened "
    assert len(questions) == 2


@pytest.mark.parametrize("call_delete", CLIENTS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_call_that_the_user_refuses_does_not_run(hub: Hub, call_delete: Caller, action: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    assert "its approval was refused by the user" in call_delete(hub, count, action, [])
    assert not count.exists()


def test_fastmcp_speaks_the_newest_revision(hub: Hub) -> None:
    async def revision() -> Any:
        async with fastmcp.Client(hub.endpoint("safe"), timeout=BOUND) as client:
            return client.session.protocol_version

    assert asyncio.run(revision()) == MODERN
