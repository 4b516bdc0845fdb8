"""The session of a connection: the official client on the event loop or, until that is needed, a plain session.

Importing the official client takes longer than a plain call. So a program that makes one call starts with a plain
session (`quick`); the official client is loaded when a request is not plain, and continues the session that was agreed
on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from patchbay.client.addresses.targets import Http
from patchbay.client.auth.methods import SignIn, SuppliedCredential, get_token_path
from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.connection.plain_session import PlainSession, open_plain_session
from patchbay.client.connection.plan import ConnectionPlan
from patchbay.client.connection.requests import (
    LISTEN_METHOD,
    OPENING_METHOD,
    Answer,
    Asker,
    Item,
    Json,
    PendingQuestion,
    RequestEnd,
    RequestRun,
    make_refusal,
)
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from patchbay.events import Question
from patchbay.jsonrpc import Notification

if TYPE_CHECKING:
    from patchbay.client.connection.async_connection import AsyncConnection

log = logging.getLogger(__name__)

RENEW_SECONDS = 20.0
"""Seconds in which a server that has ended a session has to begin a new one; all requests wait for it."""

RESTORE_SECONDS = 10.0
"""Seconds in which a server answers each request that sets up a new session again."""

CLOSE_TIMEOUT_SECONDS = 15.0
"""Seconds that closing a connection may take; a program is killed long before."""


class SessionLink:
    """The official client of one connection, or the plain session before it. May be used from any thread."""

    def __init__(
        self,
        plan: ConnectionPlan,
        loop: EventLoopThread,
        start_timeout: float,
        listener: Callable[[str, Json], None],
        ask: Callable[[Question], Awaitable[Answer]] | None,
        signin: SignIn | None,
    ) -> None:
        self.plan = plan
        self._loop = loop
        self._start_timeout = start_timeout
        self._listener = listener
        self._ask = ask
        self._signin = signin
        self._lock = threading.RLock()
        self._plain: PlainSession | None = None
        self._async_connection: AsyncConnection | None = None
        self._usable: AsyncConnection | None = None
        """The official client once it is open; read without the lock."""
        self._opening: RequestRun | None = None
        self._opened: Future[None] | None = None
        self._finished: Future[None] = Future()
        self._retired: list[AsyncConnection] = []
        self._closed = False
        self._log_level: Json | None = None
        self._subscribed: dict[str, Json] = {}
        self.on_renewed: Callable[[], None] | None = None
        """Called on the thread of a request, when a new session has taken the place of one that the server ended."""

    def open(self, quick: bool) -> None:
        """Connect to the server and agree on a revision, with a plain session when `quick` and possible.

        Raises Unreachable, ServerTimeout, McpFailure; InvalidParams for a header that cannot be sent.
        """
        if quick and not self._is_signed_in():
            self._plain = open_plain_session(self.plan)
        if self._plain is None:
            self.get_async_connection()

    def _is_signed_in(self) -> bool:
        """Whether this program has signed in to the server before."""
        target, sign_in = self.plan.target, self._signin
        if isinstance(sign_in, SuppliedCredential):
            return True
        if sign_in is None or not isinstance(target, Http):
            return False
        return get_token_path(sign_in.folder, target.url, sign_in.account).exists()

    def get_async_connection(self) -> AsyncConnection:
        """Get the official client; load and open it the first time. Raises the errors of `open`."""
        usable = self._usable
        if usable is not None:
            return usable
        with self._lock:
            if self._async_connection is None:
                if self._closed:
                    raise Unreachable(f"{self.plan.target.label}: the connection was closed")
                self._open_async_connection()
            assert self._async_connection is not None
            return self._async_connection

    def _open_async_connection(self) -> None:
        from patchbay.client.connection.async_connection import AsyncConnection

        self.plan = replace(self.plan, agreed=self._plain.agreed if self._plain is not None else None)
        if self._signin is not None and isinstance(self.plan.target, Http):
            from patchbay.client.auth.oauth import make_auth

            auth, issuer = make_auth(self.plan.target.url, self._signin), self._signin.issuer or ""
            self.plan = replace(self.plan, auth=auth, issuer=issuer)
        core = self._async_connection = AsyncConnection(self.plan, self._listener, self._ask)
        self._opening = RequestRun(self._loop, OPENING_METHOD, self._start_timeout)
        self._opened = self._loop.start(core.run(self._opening))
        self._opened.add_done_callback(lambda _: self._note_end(core))
        try:
            wait_for_end(self._opening)
        except BaseException:
            self.close()
            raise
        self._usable = core

    def _note_end(self, core: AsyncConnection) -> None:
        if core is self._async_connection and not self._finished.done():
            self._finished.set_result(None)

    def renew(self, lost: AsyncConnection) -> None:
        """Begin a new session in place of one that the server has ended; threads that come later use the same one.

        Requests that still run in the old session end there. Raises the errors of `open`, which close the connection.
        """
        with self._lock:
            if self._async_connection is not lost:
                return
            if self._closed:
                raise Unreachable(f"{self.plan.target.label}: the connection was closed")
            log.info("%s has ended the session; a new one begins", self.plan.target.label)
            plain, self._plain = self._plain, None
            self._usable = None
            self._start_timeout = min(self._start_timeout, RENEW_SECONDS)
            self._retired = [*(one for one in self._retired if not one.closed.is_set()), lost]
            try:
                self._open_async_connection()
            finally:
                self._loop.call_soon(lost.retire)
            self._restore_state()
        if plain is not None:
            plain.close()
        if self.on_renewed is not None:
            self.on_renewed()

    def note_state(self, method: str, params: Json) -> None:
        """Remember what a successful request has set in the session of a server before 2026-07-28."""
        if method == "logging/setLevel":
            self._log_level = params
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = params
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)

    def _restore_state(self) -> None:
        """Set the log level and the subscriptions in the new session, without waiting for the answers."""
        core = self._async_connection
        level = [("logging/setLevel", self._log_level)] if self._log_level is not None else []
        requests = [*level, *(("resources/subscribe", params) for params in [*self._subscribed.values()])]
        if core is None or core.router.modern or not requests:
            return

        async def send_all(core: AsyncConnection) -> None:
            for method, params in requests:
                await core.perform(RequestRun(self._loop, method, RESTORE_SECONDS), method, params)

        self._loop.start(send_all(core))

    def request_plain(self, run: RequestRun, method: str, params: Json, on_item: Callable[[Item], None]) -> Json | None:
        """Send a request in the plain session; return None if the official client has to send it."""
        with self._lock:
            plain = self._plain if self._async_connection is None else None
        return plain.request(run, method, params, on_item) if plain is not None else None

    def try_direct(self, core: AsyncConnection, run: RequestRun, method: str, params: Json) -> bool:
        """Send a request directly; return False when the official client has to send it."""
        if run.exchange is not None:  # the plain session has sent it
            core.router.register(run, run.exchange.id)
            return False
        return core.try_direct(run, method, params)

    @property
    def finished(self) -> Future[None]:
        """Done when the connection has ended; a new session in place of an ended one is no end."""
        self.get_async_connection()
        return self._finished

    @property
    def closed(self) -> bool:
        """Whether either side has ended the connection."""
        core = self._async_connection
        return self._closed if core is None else core.has_ended

    @property
    def end_reason(self) -> Unreachable:
        """Why the connection has ended, where that is known."""
        failure = self._async_connection.failure if self._async_connection is not None else None
        return failure if isinstance(failure, Unreachable) else Unreachable("the connection ended")

    def close(self) -> None:
        """End the connection and the program that it started, and wait for that. May be called twice."""
        with self._lock:
            core, plain, self._plain, self._closed = self._async_connection, self._plain, None, True
        if core is not None:
            self._loop.call_soon(core.closing.set)
            if self._opening is not None and self._opened is not None and not self._opening.is_settled:
                self._opened.cancel()
            for retired in self._retired:
                self._loop.call_soon(retired.closing.set)
            if not core.closed.wait(CLOSE_TIMEOUT_SECONDS):
                log.warning("%s did not end within %s s", self.plan.target.label, CLOSE_TIMEOUT_SECONDS)
        if plain is not None:
            plain.close()

    # the server's description of itself

    @property
    def info(self) -> Json:
        """The server's `serverInfo`; empty when it sent none (2026-07-28)."""
        if self._async_connection is None and self._plain is not None:
            return self._plain.info
        info = self.get_async_connection().session.server_info
        return info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {}

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        if self._async_connection is None and self._plain is not None:
            return self._plain.version
        return self.get_async_connection().session.protocol_version or ""

    @property
    def modern(self) -> bool:
        """Whether the revision is 2026-07-28 or later."""
        if self._async_connection is None and self._plain is not None:
            return self._plain.agreed.modern
        return self.get_async_connection().router.modern

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        if self._async_connection is None and self._plain is not None:
            return self._plain.capabilities
        found = self.get_async_connection().session.server_capabilities
        return found.model_dump(by_alias=True, mode="json", exclude_none=True) if found else {}

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        if self._async_connection is None and self._plain is not None:
            instructions = self._plain.agreed.result.get("instructions")
            return instructions if isinstance(instructions, str) else None
        return self.get_async_connection().session.instructions


def get_result(end: RequestEnd) -> Json:
    """Get the result of a request. Raises its error."""
    if end.problem is not None:
        raise end.problem
    return end.result or {}


def wait_for_end(run: RequestRun) -> None:
    """Wait for the end of a run, drop its messages, and refuse questions. Raises its error."""
    while not isinstance(item := run.next_item(), RequestEnd):
        if isinstance(item, PendingQuestion):
            run.reply(item, make_refusal(item.question))
    get_result(item)


def make_async_asker(ask: Asker) -> Callable[[Question], Any]:
    """Make a function that answers questions on a worker thread, so that the loop is not blocked."""
    threads = anyio.CapacityLimiter(64)

    def answer(question: Question) -> Answer:
        try:
            return ask(question.method, question.params)
        except McpFailure as problem:
            return problem

    async def asking(question: Question) -> Answer:
        return await anyio.to_thread.run_sync(answer, question, limiter=threads, abandon_on_cancel=True)

    return asking


@contextmanager
def subscribe_to_changes(
    loop: EventLoopThread, core: AsyncConnection, wanted: Json, seconds: float
) -> Iterator[Future[None]]:
    """Listen to changes of a server of 2026-07-28 while the block runs; `core.listener` is notified.

    The future is done when the subscription ends. Raises McpFailure, Unreachable, ServerTimeout after `seconds`.
    """
    run, begun = RequestRun(loop, LISTEN_METHOD, None), threading.Event()
    run.on_item = partial(_handle_listen_item, core.listener, begun)
    future = loop.start(core.perform(run, LISTEN_METHOD, {"notifications": wanted}))
    future.add_done_callback(lambda _: begun.set())
    try:
        if not begun.wait(seconds):
            raise ServerTimeout(f"{core.plan.target.label} did not confirm the subscription within {seconds:g} s")
        if future.done():
            wait_for_end(run)
        yield future
    finally:
        future.cancel()


def _handle_listen_item(listener: Callable[[str, Json], None], begun: threading.Event, item: Item) -> None:
    if isinstance(item, Notification) and item.method == "notifications/subscriptions/acknowledged":
        begun.set()
    elif isinstance(item, Notification):
        listener(item.method, dict(item.params))
