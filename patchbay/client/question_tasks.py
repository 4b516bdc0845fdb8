"""Questions that a server asks as tasks: the client answers with a task at once, and with the result later.

A question with `task` in its params begins a task. The server reads its state with `tasks/get`, waits for its result
with `tasks/result`, and ends it with `tasks/cancel`. Used on the event loop of the connections only.

Source: MCP specification 2025-11-25, basic/utilities/tasks.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio

from patchbay.client.connection.requests import METHOD_NOT_FOUND, Answer, Json
from patchbay.client.errors import McpFailure
from patchbay.events import Question

QUESTION_TASKS = "tasks"
"""The name of this ability among the questions that a connection declares."""

TASKS_CAPABILITY: Json = {
    "cancel": {},
    "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
}
"""What a client declares at the handshake."""

TASK_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage"})
TASK_METHODS = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})

MAX_QUESTION_TASKS = 64
"""Tasks of one connection; a finished one makes room for a new one."""

POLL_INTERVAL_MS = 500
"""Milliseconds that a server waits between two looks at a task."""

RELATED_TASK = "io.modelcontextprotocol/related-task"
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603

FindAnswer = Callable[[Question], Awaitable[Answer]]


@dataclass
class _QuestionTask:
    id: str
    ttl: Any
    begun: str = field(default_factory=lambda: _now())
    changed: str = field(default_factory=lambda: _now())
    status: str = "working"
    message: str = ""
    answer: Answer | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def end(self, status: str, answer: Answer) -> None:
        """Set the result, unless it is set already."""
        if self.answer is None:
            self.status, self.answer, self.changed = status, answer, _now()
            self.message = answer.message if isinstance(answer, McpFailure) else ""
            self.ended.set()

    def describe(self) -> Json:
        """Return the Task object."""
        described = {"taskId": self.id, "status": self.status, "createdAt": self.begun, "lastUpdatedAt": self.changed}
        described |= {"statusMessage": self.message} if self.message else {}
        return {**described, "ttl": self.ttl, "pollInterval": POLL_INTERVAL_MS}


class QuestionTasks:
    """The tasks of one connection. `spawn` starts a coroutine function on the loop."""

    def __init__(self, spawn: Callable[..., object]) -> None:
        self._spawn = spawn
        self._tasks: dict[str, _QuestionTask] = {}

    def handles(self, question: Question) -> bool:
        """Whether a request of the server begins a task or is about one."""
        if question.method in TASK_METHODS:
            return True
        return question.method in TASK_QUESTIONS and isinstance(question.params.get("task"), Mapping)

    async def answer(self, question: Question, find: FindAnswer) -> Answer:
        """Answer such a request; `find` finds the answer to the question itself."""
        if question.method in TASK_QUESTIONS:
            return self._begin(question, find)
        task = self._tasks.get(str(question.params.get("taskId")))
        if task is None:
            return McpFailure(INVALID_PARAMS, "this client has no such task; it may have been removed")
        if question.method == "tasks/get":
            return task.describe()
        if question.method == "tasks/cancel":
            if task.answer is not None:
                return McpFailure(INVALID_PARAMS, f"this task has ended already: {task.status}")
            task.end("cancelled", McpFailure(INTERNAL_ERROR, "the server cancelled this task"))
            task.scope.cancel()
            return task.describe()
        await task.ended.wait()
        assert task.answer is not None
        if isinstance(task.answer, McpFailure):
            return task.answer
        meta = task.answer.get("_meta")
        related = {**(meta if isinstance(meta, Mapping) else {}), RELATED_TASK: {"taskId": task.id}}
        return {**task.answer, "_meta": related}

    def _begin(self, question: Question, find: FindAnswer) -> Answer:
        if len(self._tasks) >= MAX_QUESTION_TASKS:
            ended = next((id for id, task in self._tasks.items() if task.answer is not None), None)
            if ended is None:
                return McpFailure(INTERNAL_ERROR, f"this client has {MAX_QUESTION_TASKS} open tasks; try again later")
            del self._tasks[ended]
        task = _QuestionTask(secrets.token_urlsafe(16), question.params["task"].get("ttl"))
        self._tasks[task.id] = task
        params = {key: value for key, value in question.params.items() if key != "task"}
        self._spawn(_run, task, find, Question(question.method, params))
        return {"task": task.describe()}


async def _run(task: _QuestionTask, find: FindAnswer, question: Question) -> None:
    try:
        with task.scope:
            answer = await find(question)
            task.end("failed" if isinstance(answer, McpFailure) else "completed", answer)
    finally:
        task.end("failed", McpFailure(METHOD_NOT_FOUND, "this client could not answer"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
