"""Between a transport and the official session: route the server's own messages, and pass on answers.

`SessionReadStream` wraps the stream that the SDK's session reads. Each other message goes to its request: progress by
its token, a change by its subscription, every other message by the HTTP answer that brought it, or over standard input
and output as `request_owners.py` says. Messages without a request go to the listener. `SessionWriteStream` wraps the
stream that the session writes, and records the id of each request.

Source: MCP specification 2025-11-25 and 2026-07-28, basic/transports, basic/utilities.
"""

from __future__ import annotations

import contextvars
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Protocol

import anyio
import mcp_types as types
from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import BaseModel

from patchbay.client.connection.plan import ConnectionPlan, complete_handshake
from patchbay.client.connection.requests import (
    CURRENT_RUN,
    LISTEN_METHOD,
    OPENING_METHOD,
    Answer,
    Json,
    RequestEnd,
    RequestRun,
    make_notification_item,
)
from patchbay.client.connection.server_requests import ServerRequests, TransportWriteStream
from patchbay.client.errors import McpFailure
from patchbay.client.question_tasks import QUESTION_TASKS, TASKS_CAPABILITY
from patchbay.client.rate_limit import make_message_limiter
from patchbay.client.request_owners import RequestOwners
from patchbay.events import Progress, Question
from patchbay.jsonrpc import Notification

log = logging.getLogger(__name__)

CUT_STREAM = "SSE stream "
"""How the official client begins the message of the error that it makes when a stream ends without an answer."""

_CHANGE_NOTIFICATION = re.compile(r"notifications/(\w+/list_changed|resources/updated)")


class AnyRequest(types.Request[dict[str, Any], str]):
    """A request of any method, with unchanged params."""

    method: str
    params: dict[str, Any]


class TaskRequest(AnyRequest):
    """A request of the tasks extension, which names its task in a header too (MCP 2026-07-28, `Mcp-Name`)."""

    name_param: ClassVar[str] = "taskId"


class AnyResult(BaseModel):
    """A result of any method; the raw result is taken from the transport."""


class TransportReadStream(Protocol):
    """The stream of a transport that messages are read from."""

    async def receive(self) -> SessionMessage | Exception: ...
    async def aclose(self) -> None: ...


class MessageRouter:
    """The open requests of a connection, and the delivery of the server's own messages.

    `listener` receives notifications that belong to no request, `ask` answers questions, `spawn` starts a task. With
    `declares_tasks`, the handshake declares that the server may ask questions as tasks.
    """

    def __init__(
        self,
        listener: Callable[[str, Json], None],
        ask: Callable[[Question], Awaitable[Answer]] | None,
        spawn: Callable[..., object],
        declares_tasks: bool = False,
    ) -> None:
        self.runs: dict[str | int, RequestRun] = {}
        self.owners = RequestOwners(self.runs)
        self.ended = anyio.Event()
        self.unreadable_messages: list[str] = []
        self.modern = False
        self.heard_at = 0.0
        """The `time.monotonic()` of the last message of the server."""
        self._listener = listener
        self.spawn = spawn
        self._declares_tasks = declares_tasks
        self.questions = ServerRequests(self.owners, ask, spawn, declares_tasks)

    def register_sent(self, message: SessionMessage) -> None:
        """Register a request that is being sent."""
        run, body = CURRENT_RUN.get(), message.message
        if self._declares_tasks and isinstance(body, JSONRPCRequest) and body.method == "initialize":
            # The official session declares nothing about tasks.
            params = body.params or {}
            capabilities = {**params.get("capabilities", {}), "tasks": TASKS_CAPABILITY}
            message.message = body = body.model_copy(update={"params": {**params, "capabilities": capabilities}})
        if run is None or not isinstance(body, JSONRPCRequest):
            return
        self.unregister(run)
        run.id = body.id
        self.runs[body.id] = run
        meta = (body.params or {}).get("_meta")
        if run.capabilities is not None and isinstance(meta, dict) and CLIENT_CAPABILITIES_META_KEY in meta:
            meta[CLIENT_CAPABILITIES_META_KEY] = dict(run.capabilities)

    def register(self, run: RequestRun, id: str | int) -> None:
        """Register a request that its caller sends under this id, on another thread."""
        run.id = id
        self.runs[id] = run

    def unregister(self, run: RequestRun) -> None:
        """Remove a finished request."""
        if run.id is not None:
            self.runs.pop(run.id, None)
            self.owners.note_end()

    async def route(self, item: SessionMessage | Exception, run: RequestRun | None, out: TransportWriteStream) -> bool:
        """Route a message.

        Return True for an answer, which the session reads. `run` is the request whose answer brought it.
        """
        if run is not None and self.runs.get(run.id or "") is not run:
            run = None  # the standing stream carries the context of a request that has ended
        if isinstance(item, Exception):
            self.unreadable_messages = [*self.unreadable_messages[-2:], str(item)[:200]]
            return False
        body = item.message
        if isinstance(body, JSONRPCNotification):
            await self._route_notification(body.method, body.params or {}, run)
            return False
        if isinstance(body, JSONRPCRequest):
            if self.modern and body.method != "ping":
                log.debug("dropped the request %s: this revision has no requests from servers", body.method)
            else:
                self.questions.accept(body, run, out)
            return False
        id = coerce_request_id(body.id) if body.id is not None else None
        self.owners.note_answer(id)
        asked = self.runs.get(id) if id is not None else None
        if asked is not None and isinstance(body, JSONRPCResponse):
            if asked.method == OPENING_METHOD:
                body.result = complete_handshake(body.result)
            asked.raw_result = body.result
        elif asked is not None and isinstance(body, JSONRPCError):
            asked.is_refused = not body.error.message.startswith(CUT_STREAM)
        if asked is not None and asked.reader is not None:
            self.unregister(asked)
            asked.finish(_make_end(body))
        return True

    async def _route_notification(self, method: str, params: Json, run: RequestRun | None) -> None:
        if method == "notifications/cancelled":
            self._cancel_question(params.get("requestId"))
            return
        item = make_notification_item(method, params)
        if method == "notifications/progress":
            token = params.get("progressToken")
            run = (
                next((one for one in [*self.runs.values()] if one.progress_token == token), None)
                if token is not None
                else None
            )
            if run is not None and isinstance(item, Progress):
                await run.deliver(item)
            return
        meta = params.get("_meta")
        subscription = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, dict) else None
        if isinstance(subscription, (str, int)) and subscription in self.runs:
            run = self.runs[subscription]
        run = run or self.owners.find_now()
        if run is not None and (run.method == LISTEN_METHOD or not _CHANGE_NOTIFICATION.fullmatch(method)):
            await run.deliver(item)
        else:
            self._listener(method, params)

    def _cancel_question(self, id: object) -> None:
        if not isinstance(id, (str, int)) or self.questions.cancel(id):
            return
        if id in self.runs and self.runs[id].method == LISTEN_METHOD:
            self.spawn(self.runs[id].deliver, Notification("notifications/cancelled", {"requestId": id}))


def _make_end(answer: JSONRPCResponse | JSONRPCError) -> RequestEnd:
    if isinstance(answer, JSONRPCResponse):
        return RequestEnd(answer.result)
    error = answer.error
    return RequestEnd(problem=McpFailure(error.code, error.message, error.data))


class SessionReadStream:
    """The stream that the session reads: answers only."""

    def __init__(self, inner: TransportReadStream, out: TransportWriteStream, traffic: MessageRouter) -> None:
        self._inner = inner
        self._out = out
        self._router = traffic
        self._limiter = make_message_limiter()
        self.last_context: contextvars.Context | None = None

    async def receive(self) -> SessionMessage | Exception:
        """Receive the next answer."""
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._router.ended.set()
                raise
            self._router.heard_at = time.monotonic()
            self.last_context = getattr(self._inner, "last_context", None)
            run = self.last_context.get(CURRENT_RUN) if self.last_context is not None else None
            if await self._router.route(item, run, self._out):
                return item
            await self._limiter.acquire()

    async def aclose(self) -> None:
        self._router.ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> SessionReadStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> SessionReadStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class SessionWriteStream:
    """The stream that the session writes."""

    def __init__(self, inner: TransportWriteStream, traffic: MessageRouter) -> None:
        self._inner = inner
        self._router = traffic

    async def send(self, item: SessionMessage, /) -> None:
        """Register a request and send it."""
        self._router.register_sent(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> SessionWriteStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> Any:
        await self.aclose()


class SessionDispatcher(JSONRPCDispatcher[Any]):
    """The SDK's dispatcher; a request that a caller has begun keeps its id."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> Json:
        run = CURRENT_RUN.get()
        if run is not None and run.exchange is not None:
            opts = {**(opts or {}), "request_id": run.exchange.id}
        return await super().send_raw_request(method, params, opts, **more)


def make_session(plan: ConnectionPlan, inlet: SessionReadStream, outlet: SessionWriteStream) -> ClientSession:
    """Make the official session, which declares what the plan allows."""
    declared = {f"{name}_callback": _refuse_callback for name in plan.capabilities - {QUESTION_TASKS}}
    level: Any = plan.log_level
    return ClientSession(
        dispatcher=SessionDispatcher(inlet, outlet),
        client_info=types.Implementation(name=plan.name, version=plan.version),
        extensions=dict(plan.extensions) if plan.extensions else None,
        log_level=level,
        **declared,  # type: ignore[arg-type]
    )


async def _refuse_callback(*_: object) -> Any:
    raise AssertionError("the message router answers questions before the session sees them")
