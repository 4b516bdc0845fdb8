"""One connection on the loop: the transport is opened, the revision agreed on, requests are sent, all of it is closed.

The official session does the protocol; this file decides what is tried, and says what went wrong in one sentence.
A program that ends while it is asked for its era is started once more for the handshake; a URL that refuses the POST
is tried as the HTTP+SSE pair.
Sources: SPEC-DIGEST 1.7, 1.11, 2.4; MCP specification, basic/lifecycle, versioning; REQUIREMENTS JN-1.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import HEADER_MISMATCH
from pydantic import BaseModel, ValidationError

from patchbay.client.addresses.targets import Era, Http, Stdio, check_headers
from patchbay.client.connection.direct_http import PLAIN_METHODS, DirectHttp
from patchbay.client.connection.failure_messages import (
    FailureContext,
    make_client_error,
    make_connection_lost_error,
    unwrap_group,
)
from patchbay.client.connection.http import OLD_TRANSPORT_STATUSES, HttpConnection
from patchbay.client.connection.in_process import open_exchange_streams
from patchbay.client.connection.message_streams import MessageRouter, SessionReadStream, SessionWriteStream
from patchbay.client.connection.negotiation import negotiate
from patchbay.client.connection.plan import MAX_LIST_PAGES, ConnectionPlan
from patchbay.client.connection.requests import CURRENT_RUN, Answer, Json, RequestEnd, RequestRun
from patchbay.client.connection.stdio import ChildProcess, run_program
from patchbay.client.connection.uv_cache import make_offline_target
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.errors import PatchbayError
from patchbay.events import Question

log = logging.getLogger(__name__)
for _name in ("mcp", "client"):  # the SDK's loggers: what they say is for a log, never for somebody's terminal
    logging.getLogger(_name).addHandler(logging.NullHandler())

MAX_QUESTION_ROUNDS = 20
"""How often one request may come back with questions (2026-07-28)."""

FIRST_BACKOFF, LAST_BACKOFF = 0.05, 1.0
"""Seconds between two tries when the server asks to come again without a question."""

IN_SESSION_ERROR_CODES = frozenset({types.METHOD_NOT_FOUND, -32002})
"""Errors of servers that know the session, also with HTTP 404: what they do not have is the method, the resource."""

LOSS_GRACE_SECONDS = 2.0
"""Seconds in which it is learnt why a connection ended."""


class _AnyRequest(types.Request[dict[str, Any], str]):
    """A request of any method, as it is."""

    method: str
    params: dict[str, Any]


class _TaskRequest(_AnyRequest):
    """One of the tasks extension, which names its task in a header too (SPEC-DIGEST 1.2)."""

    name_param: ClassVar[str] = "taskId"


class _Dispatcher(JSONRPCDispatcher[Any]):
    """The SDK's; it goes on with a request that has begun under the id that this one has already."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> Json:
        run = CURRENT_RUN.get()
        if run is not None and run.exchange is not None:
            opts = {**(opts or {}), "request_id": run.exchange.id}
        return await super().send_raw_request(method, params, opts, **more)


class _AnyResult(BaseModel):
    """A result of any method: what came is taken from the wire itself."""


@dataclass
class AsyncConnection:
    """One connection; everything here happens on the loop, but for `at_once`."""

    plan: ConnectionPlan
    listener: Callable[[str, Json], None]
    ask: Callable[[Question], Awaitable[Answer]] | None
    session: ClientSession = field(init=False)
    router: MessageRouter = field(init=False)
    child: ChildProcess | None = None
    http: HttpConnection | None = None
    direct: DirectHttp | None = None
    failure: BaseException | None = None
    closing: anyio.Event = field(default_factory=anyio.Event)
    failure_known: anyio.Event = field(default_factory=anyio.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    async def run(self, opening: RequestRun) -> None:
        """Open, say so by ending `opening`, stay until `closing` is set, close."""
        CURRENT_RUN.set(opening)
        try:
            await self._try_transports(opening)
        except BaseException as problem:
            self._set_failure(unwrap_group(problem))
            opening.finish(RequestEnd(problem=self._make_error(self.failure or problem, opening)))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.failure_known.set()
            self.closed.set()
            opening.finish(RequestEnd(problem=Unreachable(f"{self.plan.target.label}: the connection was closed")))

    async def _try_transports(self, opening: RequestRun) -> None:
        ways = self._list_transports()
        for number, (era, way) in enumerate(ways, 1):
            try:
                await self._run_session(opening, era, way())
                return
            except BaseException as problem:
                if number == len(ways) or not self._can_try_next(opening, problem):
                    raise
                log.debug("tried the next way to %s after %r", self.plan.target.label, problem)

    def _list_transports(self) -> Sequence[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]:
        """What is tried, in this order: an era, and the streams to speak it over."""
        target, era = self.plan.target, self.plan.era
        if isinstance(target, Stdio):
            eras: list[Era] = [era, "legacy"] if era == "auto" else [era]
            cached = make_offline_target(target)
            kept = [(era, partial(self._open_program, cached))] if cached is not None else []
            return kept + [(one, partial(self._open_program, target)) for one in eras]
        if isinstance(target, Http):
            check_headers(target.headers, target.label)
            web = self.http = HttpConnection(
                target, self.plan.auth, self.plan.limit, self.plan.agreed, self.plan.issuer
            )
            if self.plan.agreed is not None:
                return [(era, web.open_streamable)]
            ways: dict[str, list[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]] = {
                "streamable-http": [(era, web.open_streamable)],
                "sse": [("legacy" if era == "auto" else era, web.open_sse)],
            }
            both = ways["streamable-http"] + ([("legacy", web.open_sse)] if era != "modern" else [])
            return ways.get(target.transport, both)
        if self.plan.exchange is None:
            raise Unreachable(f"{target.label} is a server of a hub, and there is no hub in this process")
        exchange = self.plan.exchange
        return [(era, lambda: open_exchange_streams(exchange))]

    def _can_try_next(self, opening: RequestRun, problem: BaseException) -> bool:
        """Whether the next way is worth a try after this one failed."""
        inner = unwrap_group(problem)
        if isinstance(inner, (asyncio.CancelledError, TimeoutError, PatchbayError)) or opening.is_settled:
            return False
        if self.http is not None:
            return self.http.status in OLD_TRANSPORT_STATUSES
        return isinstance(inner, MCPError) and self.child is not None and self.child.exit_code is not None

    @asynccontextmanager
    async def _open_program(self, target: Stdio) -> AsyncIterator[Any]:
        async with run_program(target, self.plan.environ, self.plan.limit) as (self.child, streams):
            yield streams

    async def _run_session(self, opening: RequestRun, era: Era, way: AbstractAsyncContextManager[Any]) -> None:
        async with anyio.create_task_group() as tasks:
            self.router = MessageRouter(self.listener, self.ask, tasks.start_soon)
            patience = anyio.CancelScope()
            tasks.start_soon(self._enforce_deadline, opening, patience, tasks.cancel_scope)
            async with way as (reading, writing):
                outlet = SessionWriteStream(writing, self.router)
                async with self._make_session(SessionReadStream(reading, outlet, self.router), outlet) as self.session:
                    self.router.modern = await negotiate(self.session, era, self.router.ended, self.plan.agreed)
                    await self._set_log_level()
                    self.router.unregister(opening)
                    patience.cancel()
                    self.direct = (
                        self.http.make_direct(self.session, self.router.modern) if self.http is not None else None
                    )
                    opening.finish(RequestEnd({}))
                    try:
                        await self._wait_until_closed()
                    finally:
                        if self.direct is not None:
                            self.direct.close()
            tasks.cancel_scope.cancel()
        if self.failure is not None:
            raise self.failure

    async def _enforce_deadline(
        self, opening: RequestRun, patience: anyio.CancelScope, everything: anyio.CancelScope
    ) -> None:
        with patience:
            try:
                with opening.clock.running():
                    await anyio.sleep_forever()
            except TimeoutError as problem:
                self._set_failure(problem)
                everything.cancel()

    def _set_failure(self, problem: BaseException) -> None:
        self.failure = self.failure or problem
        self.failure_known.set()

    def _make_session(self, inlet: SessionReadStream, outlet: SessionWriteStream) -> ClientSession:
        declared = {f"{name}_callback": _refuse_callback for name in self.plan.capabilities}
        level: Any = self.plan.log_level
        return ClientSession(
            dispatcher=_Dispatcher(inlet, outlet),
            client_info=types.Implementation(name=self.plan.name, version=self.plan.version),
            extensions=dict(self.plan.extensions) if self.plan.extensions else None,
            log_level=level,
            **declared,  # type: ignore[arg-type]
        )

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

    # requests

    def try_direct(self, run: RequestRun, method: str, params: Json) -> bool:
        """Whether a plain request had its answer by the short way, on the caller's thread; else it is `perform`ed."""
        if self.direct is None or method not in PLAIN_METHODS:
            return False
        result = self.direct.send(run, method, params, self.router)
        if result is not None:
            run.finish(RequestEnd(result))
        return result is not None

    def abandon(self, run: RequestRun) -> None:
        """Its caller has left. What it began, and the session has not gone on with, is cancelled here: the session
        cancels only what it has sent itself. Closing the exchange does it in 2026-07-28, a notification before."""
        run.abandon()
        if run.exchange is None:
            return
        run.exchange.close()
        self.router.unregister(run)
        if not self.router.modern and not self.closed.is_set():
            self.router.spawn(self._send_cancelled, run.exchange.id)

    async def _send_cancelled(self, id: str) -> None:
        params = types.CancelledNotificationParams(request_id=id, reason="caller left")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError):  # the connection ends
            await self.session.send_notification(types.CancelledNotification(params=params))

    async def perform(self, run: RequestRun, method: str, params: Json) -> None:
        """One request with all its rounds; what comes of it is the end of the run."""
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
        raise McpFailure(-32603, f"the server asked {MAX_QUESTION_ROUNDS} times for more input")

    async def _answer_question(self, run: RequestRun, wanted: Any) -> Mapping[str, Any]:
        if not isinstance(wanted, dict) or not isinstance(wanted.get("method"), str):
            raise McpFailure(-32603, "the server asked for input in a form that no revision has")
        answer = await run.ask(Question(wanted["method"], wanted.get("params") or {}))
        if isinstance(answer, McpFailure):
            raise answer
        return dict(answer)

    async def _send_with_headers(self, run: RequestRun, method: str, params: Json) -> Json:
        """One round. A tool whose headers have changed is looked up again, once."""
        try:
            return await self._send_once(run, method, params)
        except McpFailure as problem:
            if problem.code != HEADER_MISMATCH or method != "tools/call" or not self.router.modern:
                raise
            await self.load_tool_headers()
        return await self._send_once(run, method, params)

    async def load_tool_headers(self) -> None:
        """List all tools, for the session to know which arguments go into headers."""
        cursor = None
        for _ in range(MAX_LIST_PAGES):
            listed = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            cursor = listed.next_cursor
            if not cursor:
                return

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
            log.debug("passed on an answer to %s that is not what the revision says", method)
            return run.raw_result
        except MCPError as problem:
            if problem.code == types.CONNECTION_CLOSED:
                raise await self._make_lost_error(problem.error.message, run) from problem
            if self._has_lost_session(problem, run):
                self._set_failure(
                    Unreachable(f"{self.plan.target.label}: the server has ended the session ({run.http_refusal})")
                )
                self.closing.set()
                raise make_connection_lost_error(self._make_context(run), "") from problem
            known = run.manual_input or not run.http_refusal or run.http_refusal in problem.error.message
            on_item = "" if known else f" ({run.http_refusal})"
            raise McpFailure(problem.code, problem.error.message + on_item, problem.error.data) from problem

    def _has_lost_session(self, problem: MCPError, run: RequestRun) -> bool:
        """Whether a request was refused because the server knows its session no more: a new one has to be begun.

        MCP specification 2025-11-25, basic/transports, session management.
        """
        in_session = self.http is not None and self.http.has_session and not self.router.modern
        return (
            in_session
            and (run.http_refusal or "").startswith("HTTP 404")
            and problem.code not in IN_SESSION_ERROR_CODES
        )

    async def _send_raw(self, method: str, params: Json) -> None:
        of_task = method.startswith("tasks/") and isinstance(params.get("taskId"), str)
        await self.session.send_request(
            (_TaskRequest if of_task else _AnyRequest)(method=method, params=params), _AnyResult
        )

    async def _list_tools(self, run: RequestRun, params: Json) -> Json:
        """A page of tools: without those whose header annotations a client has to refuse."""
        listed = await self.session.list_tools(params=types.PaginatedRequestParams.model_validate(params))
        assert run.raw_result is not None
        kept = {tool.name for tool in listed.tools}
        return run.raw_result | {"tools": [tool for tool in run.raw_result["tools"] if tool["name"] in kept]}

    def _make_error(self, problem: BaseException, run: RequestRun) -> PatchbayError:
        return make_client_error(self._make_context(run), problem)

    def _make_context(self, run: RequestRun | None) -> FailureContext:
        status = self.http.status if self.http is not None else None
        return FailureContext(self.plan.target, run, self.child, status, self.plan.auth is not None, self.failure)

    async def _make_lost_error(self, why: str, run: RequestRun) -> Unreachable:
        if self.router.ended.is_set():
            with anyio.move_on_after(LOSS_GRACE_SECONDS):  # what ended it is learnt a moment later
                await self.failure_known.wait()
        return make_connection_lost_error(self._make_context(run), why)


async def _refuse_callback(*_: object) -> Any:
    raise AssertionError("questions are taken out before they reach the session")
