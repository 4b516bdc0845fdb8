"""One connection on the event loop: open the transport, agree on a revision, send requests, close.

The official SDK session implements the protocol; this module chooses what to try, and reports failures in one sentence.
A program that ends during `server/discover` is started again for the handshake; a refused POST leads to HTTP+SSE.

Sources: MCP specification 2025-11-25 and 2026-07-28, basic/lifecycle, basic/transports, versioning.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH
from pydantic import ValidationError

from patchbay.client.addresses.targets import Era, Http, Stdio, check_headers
from patchbay.client.connection.direct_http import PLAIN_METHODS, DirectHttp
from patchbay.client.connection.failure_messages import (
    FailureContext,
    make_client_error,
    make_connection_lost_error,
    make_refusal_error,
    unwrap_group,
)
from patchbay.client.connection.http import OLD_TRANSPORT_STATUSES, HttpConnection
from patchbay.client.connection.in_process import open_exchange_streams
from patchbay.client.connection.message_streams import (
    AnyRequest,
    AnyResult,
    MessageRouter,
    SessionReadStream,
    SessionWriteStream,
    TaskRequest,
    make_session,
)
from patchbay.client.connection.negotiation import negotiate
from patchbay.client.connection.plan import MAX_LIST_PAGES, ConnectionPlan
from patchbay.client.connection.programs.direct_calls import DirectCalls
from patchbay.client.connection.programs.stdio import ChildProcess, run_program
from patchbay.client.connection.programs.uv_cache import make_offline_target
from patchbay.client.connection.requests import CURRENT_RUN, Answer, Json, RequestEnd, RequestRun
from patchbay.client.errors import McpFailure, SessionLost, Unreachable
from patchbay.client.question_tasks import QUESTION_TASKS
from patchbay.errors import PatchbayError
from patchbay.events import Question

log = logging.getLogger(__name__)
for _name in ("mcp", "client"):  # without a handler, the SDK's log lines would be printed on the user's terminal
    logging.getLogger(_name).addHandler(logging.NullHandler())

MAX_QUESTION_ROUNDS = 20
"""Times that one request may come back with questions (2026-07-28)."""

FIRST_BACKOFF, LAST_BACKOFF = 0.05, 1.0
"""Seconds between two tries when the server asks for a retry without a question."""

IN_SESSION_ERROR_CODES = frozenset({types.METHOD_NOT_FOUND, -32002})
"""JSON-RPC errors of servers that know the session, also with HTTP 404: the method or the resource is missing."""

NO_SESSION = re.compile(r"session|not initialized", re.IGNORECASE)
"""What servers say that answer an unknown session with HTTP 400 in place of 404; older official examples do so."""

LOSS_GRACE_SECONDS = 2.0
"""Seconds to wait for the cause after a connection ended."""

OpenStreams = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens the two streams of a transport."""


@dataclass
class AsyncConnection:
    """One connection. Everything here runs on the event loop, except `try_direct`."""

    plan: ConnectionPlan
    listener: Callable[[str, Json], None]
    ask: Callable[[Question], Awaitable[Answer]] | None
    session: ClientSession = field(init=False)
    router: MessageRouter = field(init=False)
    child: ChildProcess | None = None
    http: HttpConnection | None = None
    direct: DirectHttp | None = None
    direct_calls: DirectCalls | None = None
    failure: BaseException | None = None
    has_ended: bool = False
    is_retired: bool = False
    closing: anyio.Event = field(default_factory=anyio.Event)
    failure_known: anyio.Event = field(default_factory=anyio.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    async def run(self, opening: RequestRun) -> None:
        """Open the connection, finish `opening`, stay open until `closing` is set, then close."""
        CURRENT_RUN.set(opening)
        try:
            await self._try_transports(opening)
        except BaseException as problem:
            self._set_failure(unwrap_group(problem))
            opening.finish(RequestEnd(problem=self._make_error(self.failure or problem, opening)))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.has_ended = True
            self.failure_known.set()
            self.closed.set()
            opening.finish(RequestEnd(problem=Unreachable(f"{self.plan.target.label}: the connection was closed")))

    async def _try_transports(self, opening: RequestRun) -> None:
        transports = self._list_transports()
        for number, (era, open_streams) in enumerate(transports, 1):
            try:
                await self._run_session(opening, era, open_streams())
                return
            except BaseException as problem:
                if number == len(transports) or not self._can_try_next(opening, problem):
                    raise
                log.debug("tried the next transport to %s after %r", self.plan.target.label, problem)

    def _list_transports(self) -> Sequence[tuple[Era, OpenStreams]]:
        """List what to try, in this order: an era, and the function that opens the streams."""
        target, era = self.plan.target, self.plan.era
        if isinstance(target, Stdio):
            eras: list[Era] = [era, "legacy"] if era == "auto" else [era]
            cached = make_offline_target(target)
            offline = [(era, partial(self._open_program, cached))] if cached is not None else []
            return offline + [(one, partial(self._open_program, target)) for one in eras]
        if isinstance(target, Http):
            check_headers(target.headers, target.label)
            plan = self.plan
            http = self.http = HttpConnection(target, plan.auth, plan.limit, plan.agreed, plan.issuer)
            if target.transport == "sse" and plan.agreed is None:
                return [("legacy" if era == "auto" else era, http.open_sse)]
            if plan.agreed is not None or target.transport == "streamable-http" or era == "modern":
                return [(era, http.open_streamable)]
            return [(era, http.open_streamable), ("legacy", http.open_sse)]
        if self.plan.exchange is None:
            raise Unreachable(f"{target.label} is a server of a hub, but this process runs no hub")
        exchange = self.plan.exchange
        return [(era, lambda: open_exchange_streams(exchange))]

    def _can_try_next(self, opening: RequestRun, problem: BaseException) -> bool:
        """Whether the next transport may be tried after this failure."""
        inner = unwrap_group(problem)
        if isinstance(inner, (asyncio.CancelledError, TimeoutError, PatchbayError)) or opening.is_settled:
            return False
        if self.http is not None:
            return self.http.status in OLD_TRANSPORT_STATUSES
        return isinstance(inner, MCPError) and self.child is not None and self.child.exit_code is not None

    @asynccontextmanager
    async def _open_program(self, target: Stdio) -> AsyncIterator[Any]:
        async with run_program(target, self.plan) as (self.child, streams):
            yield streams

    async def _run_session(self, opening: RequestRun, era: Era, streams: AbstractAsyncContextManager[Any]) -> None:
        async with anyio.create_task_group() as tasks:
            declares_tasks = QUESTION_TASKS in self.plan.capabilities
            self.router = MessageRouter(self.listener, self.ask, tasks.start_soon, declares_tasks)
            deadline = anyio.CancelScope()
            tasks.start_soon(self._enforce_deadline, opening, deadline, tasks.cancel_scope)
            async with streams as (reading, writing):
                outlet = SessionWriteStream(writing, self.router)
                inlet = SessionReadStream(reading, outlet, self.router)
                async with make_session(self.plan, inlet, outlet) as self.session:
                    self.router.modern = await negotiate(self.session, era, self.router.ended, self.plan.agreed)
                    await self._set_log_level()
                    self.router.unregister(opening)
                    deadline.cancel()
                    if self.http is not None:
                        self.direct = self.http.make_direct(self.session, self.router.modern)
                    if self.child is not None:
                        self.direct_calls = DirectCalls(self.child, self.session, self.router)
                    opening.finish(RequestEnd({}))
                    try:
                        await self._wait_until_closed()
                    finally:
                        if self.direct is not None:
                            self.direct.close()
                        if self.direct_calls is not None:
                            self.direct_calls.close(self._make_closed_error)
            tasks.cancel_scope.cancel()
        if self.failure is not None:
            raise self.failure

    async def _enforce_deadline(
        self, opening: RequestRun, deadline: anyio.CancelScope, session: anyio.CancelScope
    ) -> None:
        with deadline:
            try:
                with opening.clock.running():
                    await anyio.sleep_forever()
            except TimeoutError as problem:
                self._set_failure(problem)
                session.cancel()

    def _set_failure(self, problem: BaseException) -> None:
        self.failure = self.failure or problem
        self.has_ended = True
        self.failure_known.set()

    async def _wait_until_closed(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_transport, tasks.cancel_scope)
            await self.closing.wait()
            tasks.cancel_scope.cancel()

    async def _watch_transport(self, scope: anyio.CancelScope) -> None:
        await self.router.ended.wait()
        if self.child is not None:
            await self.child.wait_for_exit(LOSS_GRACE_SECONDS)
        self._set_failure(make_connection_lost_error(self._make_context(None), "the connection ended"))
        scope.cancel()

    async def _set_log_level(self) -> None:
        capabilities = self.session.server_capabilities
        if self.plan.log_level is None or self.router.modern or capabilities is None or capabilities.logging is None:
            return
        await self._send_raw("logging/setLevel", {"level": self.plan.log_level})

    def try_direct(self, run: RequestRun, method: str, params: Json) -> bool:
        """Send a plain request from the caller's thread. Return False when it has to be sent with `perform`."""
        if method in PLAIN_METHODS and self.direct_calls is not None:
            return self.direct_calls.send(run, method, params)
        if method not in PLAIN_METHODS or self.direct is None:
            return False
        result = self.direct.send(run, method, params, self.router)
        if result is not None:
            self.router.heard_at = time.monotonic()
            run.finish(RequestEnd(result))
        return result is not None

    def retire(self) -> None:
        """Close the connection once its last request has ended, because a new one has taken its place."""
        self.is_retired = True
        self._close_when_unused()

    def _close_when_unused(self) -> None:
        if self.is_retired and not self.router.runs:
            self.closing.set()

    def abandon(self, run: RequestRun) -> None:
        """Cancel a request whose caller has left.

        The session cancels only requests that it has sent itself; a request that the caller began is cancelled here: by
        closing the exchange in 2026-07-28, by a notification before and to a program.
        """
        run.abandon()
        self.router.owners.note_left(run)
        if run.exchange is None:
            return
        run.exchange.close()
        self.router.unregister(run)
        self._close_when_unused()
        if (self.child is not None or not self.router.modern) and not self.closed.is_set():
            self.router.spawn(self._send_cancelled, run.exchange.id)

    async def _send_cancelled(self, id: str | int) -> None:
        params = types.CancelledNotificationParams(request_id=id, reason="caller left")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError):  # the connection ends
            await self.session.send_notification(types.CancelledNotification(params=params))
        if self.direct_calls is not None:
            self.direct_calls.unsent.discard(id)

    async def perform(self, run: RequestRun, method: str, params: Json) -> None:
        """Send one request with all its rounds, and finish its run with the result or the error."""
        CURRENT_RUN.set(run)
        try:
            with run.clock.running():
                end = RequestEnd(await self._send_until_complete(run, method, params))
        except BaseException as problem:
            end = RequestEnd(problem=self._make_error(problem, run))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.router.unregister(run)
            run.finish(end)
            self._close_when_unused()

    async def _send_until_complete(self, run: RequestRun, method: str, params: Json) -> Json:
        backoff = FIRST_BACKOFF
        for _ in range(MAX_QUESTION_ROUNDS):
            result = await self._send_with_headers(run, method, params)
            if run.manual_input or not self.router.modern or result.get("resultType") != "input_required":
                return result
            wanted = result.get("inputRequests") or {}
            if not wanted:
                await anyio.sleep(backoff)
                backoff = min(2 * backoff, LAST_BACKOFF)
            params = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
            params |= {"requestState": result["requestState"]} if "requestState" in result else {}
            params |= (
                {"inputResponses": {key: await self._answer_question(run, wanted[key]) for key in wanted}}
                if wanted
                else {}
            )
        raise McpFailure(
            -32603, f"the server asked for more input {MAX_QUESTION_ROUNDS} times; the limit is {MAX_QUESTION_ROUNDS}"
        )

    async def _answer_question(self, run: RequestRun, wanted: Any) -> Mapping[str, Any]:
        if not isinstance(wanted, dict) or not isinstance(wanted.get("method"), str):
            raise McpFailure(
                -32603, "the server's request for input has an unknown form; expected an object with a method"
            )
        answer = await run.ask(Question(wanted["method"], wanted.get("params") or {}))
        if isinstance(answer, McpFailure):
            raise answer
        return dict(answer)

    async def _send_with_headers(self, run: RequestRun, method: str, params: Json) -> Json:
        """Send one round. When the server reports wrong headers for a tool, list the tools again and retry once."""
        try:
            return await self._send_once(run, method, params)
        except McpFailure as problem:
            if problem.code != HEADER_MISMATCH or method != "tools/call" or not self.router.modern:
                raise
            await self.load_tool_headers()
        return await self._send_once(run, method, params)

    async def load_tool_headers(self) -> None:
        """List all tools, so that the session knows which arguments go into headers."""
        cursor, seen = None, set[str | None]()
        while cursor not in seen and len(seen) < MAX_LIST_PAGES:
            seen.add(cursor)
            listed = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            cursor = listed.next_cursor or None

    async def _send_once(self, run: RequestRun, method: str, params: Json) -> Json:
        self.router.unregister(run)
        run.reset_round()
        try:
            if method == "tools/list":
                return await self._list_tools(run, params)
            await self._send_raw(method, params)
            return run.raw_result or {}
        except ValidationError:
            if run.raw_result is None:
                raise
            log.debug("passed on an answer to %s that does not fit the revision's schema", method)
            return run.raw_result
        except MCPError as problem:
            if problem.code == types.CONNECTION_CLOSED and not run.is_refused:
                raise await self._make_lost_error(problem.error.message, run) from problem
            if self._has_lost_session(problem, run):
                raise SessionLost(
                    f"{self.plan.target.label}: the server has ended the session ({run.http_refusal})"
                ) from problem
            raise make_refusal_error(self._make_context(run), problem) from problem

    def _has_lost_session(self, problem: MCPError, run: RequestRun) -> bool:
        """Whether a request was refused because the server has ended the session, so that a new one is needed.

        MCP specification 2025-11-25, basic/transports, session management.
        """
        in_session = self.http is not None and self.http.has_session and not self.router.modern
        if not in_session or problem.code in IN_SESSION_ERROR_CODES:
            return False
        is_named = run.http_status == 400 and NO_SESSION.search(problem.error.message) is not None
        return run.http_status == 404 or is_named

    async def _send_raw(self, method: str, params: Json) -> None:
        of_task = method.startswith("tasks/") and isinstance(params.get("taskId"), str)
        await self.session.send_request(
            (TaskRequest if of_task else AnyRequest)(method=method, params=params), AnyResult
        )

    async def _list_tools(self, run: RequestRun, params: Json) -> Json:
        """List a page of tools, without those whose header annotations a client has to refuse."""
        listed = await self.session.list_tools(params=types.PaginatedRequestParams.model_validate(params))
        assert run.raw_result is not None
        accepted = {tool.name for tool in listed.tools}
        return run.raw_result | {"tools": [tool for tool in run.raw_result["tools"] if tool["name"] in accepted]}

    def _make_error(self, problem: BaseException, run: RequestRun) -> PatchbayError:
        return make_client_error(self._make_context(run), problem)

    def _make_context(self, run: RequestRun | None) -> FailureContext:
        http, has_auth = self.http, self.plan.auth is not None
        status, refusal = (http.status, http.refusal) if http is not None else (None, "")
        return FailureContext(self.plan.target, run, self.child, status, has_auth, self.failure, refusal)

    def _make_closed_error(self, run: RequestRun) -> PatchbayError:
        return make_connection_lost_error(self._make_context(run), "Connection closed")

    async def _make_lost_error(self, why: str, run: RequestRun) -> Unreachable:
        if self.router.ended.is_set():
            with anyio.move_on_after(LOSS_GRACE_SECONDS):  # the cause becomes known a moment later
                await self.failure_known.wait()
        return make_connection_lost_error(self._make_context(run), why)
