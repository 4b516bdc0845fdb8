"""A tool asks, reports progress and logs, and independent clients of old and new revisions answer and receive it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import mcp
import pytest
from mcp.client import ClientRequestContext
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)

from tests.interaction.peers import MODERN, texts
from tests.interaction.programs import Hub
from tests.waiting import BOUND, until_async

pytestmark = [pytest.mark.process, pytest.mark.parametrize("mode", ["legacy", MODERN])]

FIELDS: dict[str, str | int | float | list[str] | None] = {
    "name": "Ada",
    "color": "blue",
    "ok": True,
    "username": "ada",
    "email": "ada@example.org",
}


async def elicit(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Fill in every field of the form that is asked for."""
    asked = getattr(params, "requested_schema", {})["properties"]
    return ElicitResult(action="accept", content={name: FIELDS[name] for name in asked})


async def decline(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="decline")


async def sample(_: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Say back what was asked."""
    content = params.messages[0].content
    text = texts(content if isinstance(content, list) else [content])
    return CreateMessageResult(
        role="assistant", content=TextContent(type="text", text=f"about {text}"), model="none", stop_reason="endTurn"
    )


async def roots(_: ClientRequestContext) -> ListRootsResult:
    return ListRootsResult(roots=[Root.model_validate({"uri": "file:///home", "name": "home"})])


def tool_text(hub: Hub, mode: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
    """What a tool of `everything` says to a client that answers all questions, unless `options` say otherwise."""

    async def conversation() -> str:
        given: dict[str, Any] = {
            "elicitation_callback": elicit,
            "sampling_callback": sample,
            "list_roots_callback": roots,
            **options,
        }
        async with mcp.Client(hub.endpoint("everything"), mode=mode, read_timeout_seconds=BOUND, **given) as client:
            result = await client.call_tool(tool, arguments or {})
            return ("failed: " if result.is_error else "") + texts(result.content)

    return asyncio.run(conversation())


@pytest.mark.parametrize(
    ("tool", "arguments", "answer"),
    [
        ("test_elicitation", {"message": "Who?"}, '"username": "ada"'),
        ("test_sampling", {"prompt": "the weather"}, "LLM response: about the weather"),
        ("test_input_required_result_elicitation", {}, "Hello, Ada!"),
        ("test_input_required_result_list_roots", {}, "Roots: file:///home"),
        ("test_input_required_result_multi_round", {}, "Ada likes blue."),
        ("test_input_required_result_multiple_inputs", {}, "Ada, about Write a greeting. You have 1 roots."),
        ("test_input_required_result_request_state", {}, "state-ok"),
        ("test_input_required_result_capabilities", {}, "Answered: elicitation, sampling, roots."),
    ],
)
def test_a_question_is_answered(hub: Hub, mode: str, tool: str, arguments: dict[str, Any], answer: str) -> None:
    assert answer in tool_text(hub, mode, tool, arguments)


def test_a_user_may_decline(hub: Hub, mode: str) -> None:
    answer = tool_text(hub, mode, "test_input_required_result_elicitation", elicitation_callback=decline)
    assert answer == "Hello, (decline)!"


def test_a_client_without_a_capability_gets_its_name(hub: Hub, mode: str) -> None:
    if mode == "legacy":
        assert re.match("failed: .*sampling", tool_text(hub, mode, "test_missing_capability", sampling_callback=None))
        return
    with pytest.raises(BaseExceptionGroup) as caught:
        tool_text(hub, mode, "test_missing_capability", sampling_callback=None)
    assert "sampling" in str(innermost(caught.value))


def innermost(problem: BaseException) -> BaseException:
    """The one cause inside groups of one."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


def test_progress_and_logs_arrive(hub: Hub, mode: str) -> None:
    steps: list[float] = []
    lines: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def logged(params: LoggingMessageNotificationParams) -> None:
        lines.append(params.data)

    async def conversation() -> None:
        async with mcp.Client(
            hub.endpoint("everything"),
            mode=mode,
            read_timeout_seconds=BOUND,
            logging_callback=logged,
            log_level=None if mode == "legacy" else "info",
        ) as client:
            await client.call_tool("test_tool_with_progress", {}, progress_callback=progressed)
            await client.call_tool("test_tool_with_logging", {})
            # The client calls its callbacks in tasks of their own, which may run after the result.
            await until_async(lambda: len(steps) >= 3 and len(lines) >= 3, lambda: f"the notices; {steps}, {lines}")

    asyncio.run(conversation())
    assert steps == [0, 50, 100]
    assert lines == ["Tool execution started", "Tool processing data", "Tool execution completed"]
