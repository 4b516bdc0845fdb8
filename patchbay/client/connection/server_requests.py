"""The requests that a server sends to its client: pings, and questions for the caller of a request.

A question is put to the caller of the request that it is for as soon as it arrives, before the answer of that request
is read: a program may send both at once. Where several requests may be meant, `request_owners.py` decides.

Source: MCP specification 2025-11-25, basic/utilities, client/elicitation, client/roots.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from patchbay.client.connection.requests import Answer, PendingQuestion, RequestRun
from patchbay.client.errors import McpFailure
from patchbay.client.question_tasks import QuestionTasks
from patchbay.client.request_owners import Candidates, RequestOwners
from patchbay.events import Question

log = logging.getLogger(__name__)

MAX_OPEN_SERVER_REQUESTS = 64
"""Requests of a server that wait for an answer at a time; more are dropped."""


ROOTS = "roots/list"


class TransportWriteStream(Protocol):
    """The stream of a transport that messages are written to."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class PutQuestion(NamedTuple):
    """A question that was put to the caller of a request when it arrived."""

    run: RequestRun
    pending: PendingQuestion


Found = RequestRun | Candidates | PutQuestion
"""The request that a question is for, those that it may be for, or the question that was put already."""


class ServerRequests:
    """The open requests of a server. Used on the event loop.

    `owners` knows the open requests of the client. `ask` answers questions that no caller of a request answers. `spawn`
    starts a task. With `takes_tasks`, the server may ask questions as tasks.
    """

    def __init__(
        self,
        owners: RequestOwners,
        ask: Callable[[Question], Awaitable[Answer]] | None,
        spawn: Callable[..., object],
        takes_tasks: bool,
    ) -> None:
        self._owners = owners
        self._ask = ask
        self._spawn = spawn
        self._tasks = QuestionTasks(spawn) if takes_tasks else None
        self._scopes: dict[str | int, anyio.CancelScope] = {}
        self._open_roots = 0
        self._change = anyio.Event()
        self.answered_roots = 0
        """How many requests for roots were answered."""
        self.count = 0
        """Requests without a written answer."""

    def accept(self, body: JSONRPCRequest, run: RequestRun | None, out: TransportWriteStream) -> None:
        """Take a request, which is answered in a task. `run` is the request whose answer brought it, if one did."""
        if self.count >= MAX_OPEN_SERVER_REQUESTS:
            log.debug("dropped the request %s: %d requests of the server are open", body.method, self.count)
            return
        self.count += 1
        self._open_roots += body.method == ROOTS
        self._spawn(self._handle, body, self._find(body, run), out)

    def cancel(self, id: str | int) -> bool:
        """Cancel the question with this id, as the server asks; return whether there is such a question."""
        scope = self._scopes.get(id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def wait_until_roots_are_answered(self) -> None:
        """Wait until the answers to all requests for roots are written."""
        while self._open_roots:
            await self._change.wait()

    def _find(self, body: JSONRPCRequest, run: RequestRun | None) -> Found:
        """Return for which request a question is, and put it there at once; else those that it may be for."""
        candidates, question = self._owners.list_candidates(), Question(body.method, body.params or {})
        found = run or self._owners.find_at_once(candidates)
        if found is None or body.method == "ping" or (self._tasks is not None and self._tasks.handles(question)):
            return found or candidates
        return PutQuestion(found, found.put_question(question))

    async def _handle(self, body: JSONRPCRequest, found: Found, out: TransportWriteStream) -> None:
        try:
            if body.method == "ping":
                await _write_reply(out, JSONRPCResponse(jsonrpc="2.0", id=body.id, result={}))
            else:
                await self._answer(body, found, out)
        finally:
            self.count -= 1
            if body.method == ROOTS:
                self._open_roots -= 1
                self.answered_roots += 1
            change, self._change = self._change, anyio.Event()
            change.set()

    async def _answer(self, body: JSONRPCRequest, found: Found, out: TransportWriteStream) -> None:
        question = Question(body.method, body.params or {})
        with anyio.CancelScope() as scope:
            self._scopes[body.id] = scope
            try:
                await _write_reply(out, _make_reply(body.id, await self._find_answer_or_task(question, found)))
            finally:
                self._scopes.pop(body.id, None)

    async def _find_answer_or_task(self, question: Question, found: Found) -> Answer:
        if isinstance(found, PutQuestion):
            return await found.run.wait_for_answer(found.pending)
        try:
            run = await self._owners.find(found) if isinstance(found, Candidates) else found
        except McpFailure as problem:
            return problem
        if self._tasks is not None and self._tasks.handles(question):
            return await self._tasks.answer(question, lambda one: self._find_answer(one, run))
        return await self._find_answer(question, run)

    async def _find_answer(self, question: Question, run: RequestRun | None) -> Answer:
        """Return the answer of the caller of the request that a question belongs to, else that of `ask`."""
        if run is not None:
            return await run.ask(question)
        if self._ask is not None:
            return await self._ask(question)
        return McpFailure(METHOD_NOT_FOUND, f"this client cannot tell which request {question.method} belongs to")


def _make_reply(id: str | int, answer: Answer) -> JSONRPCResponse | JSONRPCError:
    if isinstance(answer, McpFailure):
        return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=answer.code, message=answer.message))
    return JSONRPCResponse(jsonrpc="2.0", id=id, result=dict(answer))


async def _write_reply(out: TransportWriteStream, message: JSONRPCResponse | JSONRPCError) -> None:
    try:
        await out.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        log.debug("an answer to the server was dropped: the connection has ended")
