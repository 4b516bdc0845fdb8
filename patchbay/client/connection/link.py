"""The session of a connection: the official client on the event loop or, until that is needed, a plain session.

Importing the official client takes longer than a plain call. So a program that makes one call starts with a plain
session (`quick`); the official client is loaded when a request is not plain, and continues the session that was agreed
on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from patchbay.client.addresses.targets import Http
from patchbay.client.auth.methods import SignIn, SuppliedTokens, get_token_path
from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.connection.plain_session import PlainSession, open_plain_session
from patchbay.client.connection.plan import ConnectionPlan
from patchbay.client.connection.requests import (
    Answer,
    Asker,
    Item,
    Json,
    PendingQuestion,
    RequestEnd,
    RequestRun,
    make_refusal,
)
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.events import Question

if TYPE_CHECKING:
    from patchbay.client.connection.async_connection import AsyncConnection

log = logging.getLogger(__name__)

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
        self._opening: RequestRun | None = None
        self._finished: Future[None] | None = None
        self._closed = False

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
        if isinstance(sign_in, SuppliedTokens):
            return True
        if sign_in is None or not isinstance(target, Http):
            return False
        return get_token_path(sign_in.folder, target.url, sign_in.account).exists()

    def get_async_connection(self) -> AsyncConnection:
        """Get the official client; load and open it the first time. Raises the errors of `open`."""
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
        self._async_connection = AsyncConnection(self.plan, self._listener, self._ask)
        self._opening = RequestRun(self._loop, "initialize", self._start_timeout)
        self._finished = self._loop.start(self._async_connection.run(self._opening))
        try:
            wait_for_end(self._opening)
        except BaseException:
            self.close()
            raise

    def request_plain(self, run: RequestRun, method: str, params: Json, on_item: Callable[[Item], None]) -> Json | None:
        """Send a plain request in the plain session; None when the official client has to continue with it."""
        with self._lock:
            plain = self._plain if self._async_connection is None else None
        return plain.request(run, method, params, on_item) if plain is not None else None

    def try_direct(self, run: RequestRun, method: str, params: Json) -> bool:
        """Send a request directly; return False when the official client has to send it."""
        core = self.get_async_connection()
        if run.exchange is not None:  # the plain session has sent it
            core.router.register(run, run.exchange.id)
            return False
        return core.try_direct(run, method, params)

    @property
    def finished(self) -> Future[None]:
        """Done when the connection has ended."""
        self.get_async_connection()
        assert self._finished is not None
        return self._finished

    @property
    def closed(self) -> bool:
        """Whether either side has ended the connection."""
        if self._async_connection is None:
            return self._closed
        return self._async_connection.failure_known.is_set() or self._async_connection.closed.is_set()

    def close(self) -> None:
        """End the connection and the program that it started, and wait for that. May be called twice."""
        with self._lock:
            core, plain, self._plain, self._closed = self._async_connection, self._plain, None, True
        if core is not None:
            self._loop.call_soon(core.closing.set)
            if self._opening is not None and self._finished is not None and not self._opening.is_settled:
                self._finished.cancel()
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
