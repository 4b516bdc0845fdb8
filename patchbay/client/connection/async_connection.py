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

from patchbay.client.addresses.targets import Era, Http, Stdio, sendable
from patchbay.client.connection.direct_http import PLAIN, DirectHttp
from patchbay.client.connection.failure_messages import FailureContext, as_client_error, connection_lost, innermost
from patchbay.client.connection.http import GET_INSTEAD, HttpConnection
from patchbay.client.connection.in_process import exchanged
from patchbay.client.connection.message_streams import SessionReadStream, SessionWriteStream, Traffic
from patchbay.client.connection.negotiation import agree
from patchbay.client.connection.plan import PAGES, Plan
from patchbay.client.connection.requests import CURRENT, Answer, Json, RequestEnd, RequestRun
from patchbay.client.connection.stdio import Child, program
from patchbay.client.connection.uv_cache import from_cache
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.errors import PatchbayError
from patchbay.events import Question

log = logging.getLogger(__name__)
for _name in ("mcp", "client"):  # the SDK's loggers: what they say is for a log, never for somebody's terminal
    logging.getLogger(_name).addHandler(logging.NullHandler())

MAX_QUESTION_ROUNDS = 20
"""How often one request may come back with questions (2026-07-28)."""

FIRST_BACKOFF, LONGEST_BACKOFF = 0.05, 1.0
"""Seconds between two tries when the server asks to come again without a question."""

SESSION_KNOWN = frozenset({types.METHOD_NOT_FOUND, -32002})
"""Errors of servers that know the session, also with HTTP 404: what they do not have is the method, the resource."""

LATER = 2.0
"""Seconds in which it is learnt why a connection ended."""


class _Raw(types.Request[dict[str, Any], str]):
    """A request of any method, as it is."""

    method: str
    params: dict[str, Any]


class _OfTask(_Raw):
    """One of the tasks extension, which names its task in a header too (SPEC-DIGEST 1.2)."""

    name_param: ClassVar[str] = "taskId"


class _Dispatcher(JSONRPCDispatcher[Any]):
    """The SDK's; it goes on with a request that has begun under the id that this one has already."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> Json:
        run = CURRENT.get()
        if run is not None and run.begun is not None:
            opts = {**(opts or {}), "request_id": run.begun.id}
        return await super().send_raw_request(method, params, opts, **more)


class _Anything(BaseModel):
    """A result of any method: what came is taken from the wire itself."""


@dataclass
class AsyncConnection:
    """One connection; everything here happens on the loop, but for `at_once`."""

    plan: Plan
    listener: Callable[[str, Json], None]
    ask: Callable[[Question], Awaitable[Answer]] | None
    session: ClientSession = field(init=False)
    traffic: Traffic = field(init=False)
    child: Child | None = None
    web: HttpConnection | None = None
    direct: DirectHttp | None = None
    problem: BaseException | None = None
    closing: anyio.Event = field(default_factory=anyio.Event)
    known: anyio.Event = field(default_factory=anyio.Event)
    over: threading.Event = field(default_factory=threading.Event)

    async def live(self, opening: RequestRun) -> None:
        """Open, say so by ending `opening`, stay until `closing` is set, close."""
        CURRENT.set(opening)
        try:
            await self._live(opening)
        except BaseException as problem:
            self._know(innermost(problem))
            opening.finish(RequestEnd(problem=self._told(self.problem or problem, opening)))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.known.set()
            self.over.set()
            opening.finish(RequestEnd(problem=Unreachable(f"{self.plan.reach.described}: the connection was closed")))

    async def _live(self, opening: RequestRun) -> None:
        ways = self._ways()
        for number, (era, way) in enumerate(ways, 1):
            try:
                await self._stay(opening, era, way())
                return
            except BaseException as problem:
                if number == len(ways) or not self._may_go_on(opening, problem):
                    raise
                log.debug("tried the next way to %s after %r", self.plan.reach.described, problem)

    def _ways(self) -> Sequence[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]:
        """What is tried, in this order: an era, and the streams to speak it over."""
        reach, era = self.plan.reach, self.plan.era
        if isinstance(reach, Stdio):
            eras: list[Era] = [era, "legacy"] if era == "auto" else [era]
            cached = from_cache(reach)
            kept = [(era, partial(self._program, cached))] if cached is not None else []
            return kept + [(one, partial(self._program, reach)) for one in eras]
        if isinstance(reach, Http):
            sendable(reach.headers, reach.described)
            web = self.web = HttpConnection(reach, self.plan.auth, self.plan.limit, self.plan.adopted, self.plan.issuer)
            if self.plan.adopted is not None:
                return [(era, web.streamable)]
            ways: dict[str, list[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]] = {
                "streamable-http": [(era, web.streamable)],
                "sse": [("legacy" if era == "auto" else era, web.pair)],
            }
            both = ways["streamable-http"] + ([("legacy", web.pair)] if era != "modern" else [])
            return ways.get(reach.transport, both)
        if self.plan.exchange is None:
            raise Unreachable(f"{reach.described} is a server of a hub, and there is no hub in this process")
        exchange = self.plan.exchange
        return [(era, lambda: exchanged(exchange))]

    def _may_go_on(self, opening: RequestRun, problem: BaseException) -> bool:
        """Whether the next way is worth a try after this one failed."""
        inner = innermost(problem)
        if isinstance(inner, (asyncio.CancelledError, TimeoutError, PatchbayError)) or opening.settled:
            return False
        if self.web is not None:
            return self.web.status in GET_INSTEAD
        return isinstance(inner, MCPError) and self.child is not None and self.child.exit is not None

    @asynccontextmanager
    async def _program(self, reach: Stdio) -> AsyncIterator[Any]:
        async with program(reach, self.plan.environ, self.plan.limit) as (self.child, streams):
            yield streams

    async def _stay(self, opening: RequestRun, era: Era, way: AbstractAsyncContextManager[Any]) -> None:
        async with anyio.create_task_group() as tasks:
            self.traffic = Traffic(self.listener, self.ask, tasks.start_soon)
            patience = anyio.CancelScope()
            tasks.start_soon(self._give_up, opening, patience, tasks.cancel_scope)
            async with way as (reading, writing):
                outlet = SessionWriteStream(writing, self.traffic)
                async with self._session(SessionReadStream(reading, outlet, self.traffic), outlet) as self.session:
                    self.traffic.modern = await agree(self.session, era, self.traffic.ended, self.plan.adopted)
                    await self._set_log_level()
                    self.traffic.forget(opening)
                    patience.cancel()
                    self.direct = self.web.direct(self.session, self.traffic.modern) if self.web is not None else None
                    opening.finish(RequestEnd({}))
                    try:
                        await self._until_over()
                    finally:
                        if self.direct is not None:
                            self.direct.close()
            tasks.cancel_scope.cancel()
        if self.problem is not None:
            raise self.problem

    async def _give_up(self, opening: RequestRun, patience: anyio.CancelScope, everything: anyio.CancelScope) -> None:
        with patience:
            try:
                with opening.clock.running():
                    await anyio.sleep_forever()
            except TimeoutError as problem:
                self._know(problem)
                everything.cancel()

    def _know(self, problem: BaseException) -> None:
        self.problem = self.problem or problem
        self.known.set()

    def _session(self, inlet: SessionReadStream, outlet: SessionWriteStream) -> ClientSession:
        declared = {f"{name}_callback": _never for name in self.plan.capabilities}
        level: Any = self.plan.log_level
        return ClientSession(
            dispatcher=_Dispatcher(inlet, outlet),
            client_info=types.Implementation(name=self.plan.name, version=self.plan.version),
            extensions=dict(self.plan.extensions) if self.plan.extensions else None,
            log_level=level,
            **declared,  # type: ignore[arg-type]
        )

    async def _until_over(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._notice_the_end, tasks.cancel_scope)
            await self.closing.wait()
            tasks.cancel_scope.cancel()

    async def _notice_the_end(self, scope: anyio.CancelScope) -> None:
        await self.traffic.ended.wait()
        if self.child is not None:
            await self.child.ended(LATER)
        self._know(connection_lost(self._scene(None), "the connection ended"))
        scope.cancel()

    async def _set_log_level(self) -> None:
        capabilities = self.session.server_capabilities
        if self.plan.log_level is None or self.traffic.modern or capabilities is None or capabilities.logging is None:
            return
        await self._send_raw("logging/setLevel", {"level": self.plan.log_level})

    # requests

    def at_once(self, run: RequestRun, method: str, params: Json) -> bool:
        """Whether a plain request had its answer by the short way, on the caller's thread; else it is `perform`ed."""
        if self.direct is None or method not in PLAIN:
            return False
        result = self.direct.begin(run, method, params, self.traffic)
        if result is not None:
            run.finish(RequestEnd(result))
        return result is not None

    def leave(self, run: RequestRun) -> None:
        """Its caller has left. What it began, and the session has not gone on with, is cancelled here: the session
        cancels only what it has sent itself. Closing the exchange does it in 2026-07-28, a notification before."""
        run.leave()
        if run.begun is None:
            return
        run.begun.close()
        self.traffic.forget(run)
        if not self.traffic.modern and not self.over.is_set():
            self.traffic.spawn(self._withdraw, run.begun.id)

    async def _withdraw(self, id: str) -> None:
        params = types.CancelledNotificationParams(request_id=id, reason="caller left")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError):  # the connection ends
            await self.session.send_notification(types.CancelledNotification(params=params))

    async def perform(self, run: RequestRun, method: str, params: Json) -> None:
        """One request with all its rounds; what comes of it is the end of the run."""
        CURRENT.set(run)
        try:
            with run.clock.running():
                end = RequestEnd(await self._rounds(run, method, params))
        except BaseException as problem:
            end = RequestEnd(problem=self._told(problem, run))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.traffic.forget(run)
            run.finish(end)

    async def _rounds(self, run: RequestRun, method: str, params: Json) -> Json:
        backoff = FIRST_BACKOFF
        for _ in range(MAX_QUESTION_ROUNDS):
            result = await self._sent(run, method, params)
            if run.by_hand or not self.traffic.modern or result.get("resultType") != "input_required":
                return result
            wanted = result.get("inputRequests") or {}
            if not wanted:
                await anyio.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF)
            params = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
            params |= {"requestState": result["requestState"]} if "requestState" in result else {}
            params |= {"inputResponses": {key: await self._asked(run, wanted[key]) for key in wanted}} if wanted else {}
        raise McpFailure(-32603, f"the server asked {MAX_QUESTION_ROUNDS} times for more input")

    async def _asked(self, run: RequestRun, wanted: Any) -> Mapping[str, Any]:
        if not isinstance(wanted, dict) or not isinstance(wanted.get("method"), str):
            raise McpFailure(-32603, "the server asked for input in a form that no revision has")
        answer = await run.ask(Question(wanted["method"], wanted.get("params") or {}))
        if isinstance(answer, McpFailure):
            raise answer
        return dict(answer)

    async def _sent(self, run: RequestRun, method: str, params: Json) -> Json:
        """One round. A tool whose headers have changed is looked up again, once."""
        try:
            return await self._once(run, method, params)
        except McpFailure as problem:
            if problem.code != HEADER_MISMATCH or method != "tools/call" or not self.traffic.modern:
                raise
            await self.learn_headers()
        return await self._once(run, method, params)

    async def learn_headers(self) -> None:
        """List all tools, for the session to know which arguments go into headers."""
        cursor = None
        for _ in range(PAGES):
            listed = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            cursor = listed.next_cursor
            if not cursor:
                return

    async def _once(self, run: RequestRun, method: str, params: Json) -> Json:
        self.traffic.forget(run)
        run.begin_round()
        try:
            if method == "tools/list":
                return await self._tools(run, params)
            await self._send_raw(method, params)
            return run.raw or {}
        except ValidationError:
            if run.raw is None:
                raise
            log.debug("passed on an answer to %s that is not what the revision says", method)
            return run.raw
        except MCPError as problem:
            if problem.code == types.CONNECTION_CLOSED:
                raise await self._loss(problem.error.message, run) from problem
            if self._has_lost_session(problem, run):
                self._know(
                    Unreachable(f"{self.plan.reach.described}: the server has ended the session ({run.refused})")
                )
                self.closing.set()
                raise connection_lost(self._scene(run), "") from problem
            known = run.by_hand or not run.refused or run.refused in problem.error.message
            heard = "" if known else f" ({run.refused})"
            raise McpFailure(problem.code, problem.error.message + heard, problem.error.data) from problem

    def _has_lost_session(self, problem: MCPError, run: RequestRun) -> bool:
        """Whether a request was refused because the server knows its session no more: a new one has to be begun.

        MCP specification 2025-11-25, basic/transports, session management.
        """
        in_session = self.web is not None and self.web.in_session and not self.traffic.modern
        return in_session and (run.refused or "").startswith("HTTP 404") and problem.code not in SESSION_KNOWN

    async def _send_raw(self, method: str, params: Json) -> None:
        of_task = method.startswith("tasks/") and isinstance(params.get("taskId"), str)
        await self.session.send_request((_OfTask if of_task else _Raw)(method=method, params=params), _Anything)

    async def _tools(self, run: RequestRun, params: Json) -> Json:
        """A page of tools: without those whose header annotations a client has to refuse."""
        listed = await self.session.list_tools(params=types.PaginatedRequestParams.model_validate(params))
        assert run.raw is not None
        kept = {tool.name for tool in listed.tools}
        return run.raw | {"tools": [tool for tool in run.raw["tools"] if tool["name"] in kept]}

    def _told(self, problem: BaseException, run: RequestRun) -> PatchbayError:
        return as_client_error(self._scene(run), problem)

    def _scene(self, run: RequestRun | None) -> FailureContext:
        status = self.web.status if self.web is not None else None
        return FailureContext(self.plan.reach, run, self.child, status, self.plan.auth is not None, self.problem)

    async def _loss(self, why: str, run: RequestRun) -> Unreachable:
        if self.traffic.ended.is_set():
            with anyio.move_on_after(LATER):  # what ended it is learnt a moment later
                await self.known.wait()
        return connection_lost(self._scene(run), why)


async def _never(*_: object) -> Any:
    raise AssertionError("questions are taken out before they reach the session")
