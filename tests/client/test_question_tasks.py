"""Questions that a server asks as tasks, without a server."""

from __future__ import annotations

from typing import Any

import anyio

from patchbay.client.connection.requests import Answer
from patchbay.client.errors import McpFailure
from patchbay.client.question_tasks import MAX_QUESTION_TASKS, RELATED_TASK, QuestionTasks
from patchbay.events import Question

ASK = Question("elicitation/create", {"message": "Your name?", "task": {"ttl": 1000}})


async def never(_: Question) -> Answer:
    await anyio.sleep_forever()
    raise AssertionError


def about(task: Any, what: str) -> Question:
    return Question(f"tasks/{what}", {"taskId": task["task"]["taskId"]})


def test_a_task_works_until_the_answer_is_there() -> None:
    """MCP 2025-11-25, basic/utilities/tasks. The question itself comes without `task`."""

    async def scenario() -> None:
        known = anyio.Event()

        async def find(question: Question) -> Answer:
            assert question.params == {"message": "Your name?"}
            await known.wait()
            return {"action": "accept"}

        async with anyio.create_task_group() as group:
            tasks = QuestionTasks(group.start_soon)
            begun: Any = await tasks.answer(ASK, find)
            assert (begun["task"]["status"], begun["task"]["ttl"]) == ("working", 1000)
            known.set()
            result = await tasks.answer(about(begun, "result"), find)
            assert result == {"action": "accept", "_meta": {RELATED_TASK: {"taskId": begun["task"]["taskId"]}}}
            state: Any = await tasks.answer(about(begun, "get"), find)
            assert state["status"] == "completed"

    anyio.run(scenario)


def test_a_refused_question_is_a_failed_task() -> None:
    async def refuse(_: Question) -> Answer:
        return McpFailure(-1, "no")

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            tasks = QuestionTasks(group.start_soon)
            begun: Any = await tasks.answer(ASK, refuse)
            assert isinstance(await tasks.answer(about(begun, "result"), refuse), McpFailure)
            state: Any = await tasks.answer(about(begun, "get"), refuse)
            assert (state["status"], state["statusMessage"]) == ("failed", "no")

    anyio.run(scenario)


def test_the_server_cancels_a_task_once_and_unknown_tasks_are_errors() -> None:
    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            tasks = QuestionTasks(group.start_soon)
            begun: Any = await tasks.answer(ASK, never)
            state: Any = await tasks.answer(about(begun, "cancel"), never)
            assert state["status"] == "cancelled"
            assert isinstance(await tasks.answer(about(begun, "cancel"), never), McpFailure)
            assert isinstance(await tasks.answer(Question("tasks/get", {"taskId": "x"}), never), McpFailure)

    anyio.run(scenario)


def test_open_tasks_are_limited() -> None:
    """DESIGN 6: every queue has a bound."""

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            tasks = QuestionTasks(group.start_soon)
            begun = [await tasks.answer(ASK, never) for _ in range(MAX_QUESTION_TASKS)]
            assert isinstance(await tasks.answer(ASK, never), McpFailure)
            await tasks.answer(about(begun[0], "cancel"), never)
            assert not isinstance(await tasks.answer(ASK, never), McpFailure)
            group.cancel_scope.cancel()

    anyio.run(scenario)
