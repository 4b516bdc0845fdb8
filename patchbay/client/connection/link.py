"""What a connection runs on: the official client on the loop, or, until that is needed, a plain session.

The official client takes longer to import than a plain call takes altogether. So a program that makes one call asks
for a plain session first (`quick`); the official client is loaded when something comes that is not plain, and adopts
what was agreed on. Sources: issue 12 part 18; REQUIREMENTS JN-1.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from patchbay.client.addresses.targets import Http
from patchbay.client.auth.methods import SignIn, token_path
from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.connection.plain_session import PlainSession, begin
from patchbay.client.connection.plan import Plan
from patchbay.client.connection.requests import Answer, Item, Json, PendingQuestion, RequestEnd, RequestRun, refusal
from patchbay.client.errors import Unreachable
from patchbay.events import Question

if TYPE_CHECKING:
    from patchbay.client.connection.async_connection import AsyncConnection

log = logging.getLogger(__name__)

LONGEST_END = 15.0
"""Seconds that closing a connection may take; a program is killed long before."""


class Link:
    """The official client of one connection, or the plain session before it. May be used from any thread."""

    def __init__(
        self,
        plan: Plan,
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
        self._core: AsyncConnection | None = None
        self._opening: RequestRun | None = None
        self._life: Future[None] | None = None
        self._closed = False

    def open(self, quick: bool) -> None:
        """Reach the server and agree on a revision, with a plain session when `quick` and possible.

        Raises Unreachable, ServerTimeout, McpFailure; InvalidParams for a header that cannot be sent.
        """
        if quick and not self._has_tokens():
            self._plain = begin(self.plan)
        if self._plain is None:
            self.core()

    def _has_tokens(self) -> bool:
        """Whether this program has signed in to the server before."""
        reach, way = self.plan.reach, self._signin
        return way is not None and isinstance(reach, Http) and token_path(way.folder, reach.url).exists()

    def core(self) -> AsyncConnection:
        """The official client, which is loaded and opened when it is not yet. Raises what `open` raises."""
        with self._lock:
            if self._core is None:
                if self._closed:
                    raise Unreachable(f"{self.plan.reach.described}: the connection was closed")
                self._begin()
            assert self._core is not None
            return self._core

    def _begin(self) -> None:
        from patchbay.client.connection.async_connection import AsyncConnection

        self.plan = replace(self.plan, adopted=self._plain.adopted if self._plain is not None else None)
        if self._signin is not None and isinstance(self.plan.reach, Http):
            from patchbay.client.auth.oauth import auth_for

            auth, issuer = auth_for(self.plan.reach.url, self._signin), self._signin.issuer or ""
            self.plan = replace(self.plan, auth=auth, issuer=issuer)
        self._core = AsyncConnection(self.plan, self._listener, self._ask)
        self._opening = RequestRun(self._loop, "initialize", self._start_timeout)
        self._life = self._loop.start(self._core.live(self._opening))
        try:
            drained(self._opening)
        except BaseException:
            self.close()
            raise

    def plain_result(self, run: RequestRun, method: str, params: Json, heard: Callable[[Item], None]) -> Json | None:
        """The result of a plain request, from a plain session; None when the official client has to go on with it."""
        with self._lock:
            plain = self._plain if self._core is None else None
        return plain.ask(run, method, params, heard) if plain is not None else None

    def at_once(self, run: RequestRun, method: str, params: Json) -> bool:
        """Whether a request has its answer already, by the short way of the official client."""
        core = self.core()
        if run.begun is not None:  # the plain session has sent it
            core.traffic.join(run, run.begun.id)
            return False
        return core.at_once(run, method, params)

    @property
    def life(self) -> Future[None]:
        """Done when the connection has ended."""
        self.core()
        assert self._life is not None
        return self._life

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, from whichever side."""
        if self._core is None:
            return self._closed
        return self._core.known.is_set() or self._core.over.is_set()

    def close(self) -> None:
        """End the connection and everything it started. Returns when that is done; may be called twice."""
        with self._lock:
            core, plain, self._plain, self._closed = self._core, self._plain, None, True
        if core is not None:
            self._loop.soon(core.closing.set)
            if self._opening is not None and self._life is not None and not self._opening.settled:
                self._life.cancel()
            if not core.over.wait(LONGEST_END):
                log.warning("%s did not end within %s s", self.plan.reach.described, LONGEST_END)
        if plain is not None:
            plain.close()

    # what the server says about itself

    @property
    def info(self) -> Json:
        """The server's `serverInfo`; empty when it told none (2026-07-28)."""
        if self._core is None and self._plain is not None:
            return self._plain.info
        info = self.core().session.server_info
        return info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {}

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        if self._core is None and self._plain is not None:
            return self._plain.version
        return self.core().session.protocol_version or ""

    @property
    def modern(self) -> bool:
        """Whether that is 2026-07-28 or later."""
        if self._core is None and self._plain is not None:
            return self._plain.adopted.modern
        return self.core().traffic.modern

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        if self._core is None and self._plain is not None:
            return self._plain.capabilities
        found = self.core().session.server_capabilities
        return found.model_dump(by_alias=True, mode="json", exclude_none=True) if found else {}

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about itself."""
        if self._core is None and self._plain is not None:
            told = self._plain.adopted.result.get("instructions")
            return told if isinstance(told, str) else None
        return self.core().session.instructions


def result_of(end: RequestEnd) -> Json:
    """The result of a request. Raises what went wrong."""
    if end.problem is not None:
        raise end.problem
    return end.result or {}


def drained(run: RequestRun) -> None:
    """Wait for the end of a run whose items nobody wants; refuses questions."""
    while not isinstance(item := run.take(), RequestEnd):
        if isinstance(item, PendingQuestion):
            run.reply(item, refusal(item.question))
    result_of(item)
