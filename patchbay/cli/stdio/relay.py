"""`patchbay stdio` beside a running hub: each message goes to the hub on the same data folder, over HTTP.

So a client that starts `patchbay stdio` starts no hub and no mounted program of its own. The hub decides everything;
the relay adds what HTTP has in place of a pipe: the session and the revision in headers, a stream for the notifications
of a session, and a closed connection in place of the cancellation of a modern call.
Source: MCP specification, basic/transports (stdio, Streamable HTTP), basic/utilities/cancellation.
"""

from __future__ import annotations

import http.client
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from patchbay.cli.running_hub import RunningHub, find_running_hub
from patchbay.cli.stdio.hub_requests import HubAway, HubRequest, HubSession
from patchbay.cli.stdio.streams import (
    CALL_GRACE_SECONDS,
    CANCELLED_GRACE_SECONDS,
    EndSignal,
    take_standard_streams,
)
from patchbay.client.errors import Unreachable
from patchbay.errors import PatchbayError, TooLarge
from patchbay.jsonrpc import Id, encode, failure, message, parse, readable_id
from patchbay.settings import Settings
from patchbay.wire.pipes.call_threads import CallThreads
from patchbay.wire.pipes.lines import Writer, lines

log = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS = 64
"""Limit on the requests and listening streams at once, as of a pipe to a hub of its own."""

IN_ORDER = frozenset({"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods that are answered before the next message is read: they change the terms of later messages."""

HUB_RETURN_SECONDS = 10.0
"""Seconds in which a hub that has stopped may start again, on any port, before a message fails."""

LISTEN_AGAIN_SECONDS = 1.0
"""Seconds until the stream of notifications is opened again after its end."""


def relay_stdio(settings: Settings, hub: RunningHub, server: str) -> None:
    """Serve one server of a running hub (`name` or `name@cid`), or "" for all, until the end of the process.

    Raises UnknownServer, UnavailableServer or Unreachable before it reads input.
    """
    hub.check_served(server)
    source, sink = take_standard_streams()
    end_signal = EndSignal()
    writer = Writer(partial(os.write, sink), end_signal.notify)
    relay = Relay(partial(_find_hub_again, settings), hub, server, writer.send)

    def read() -> None:
        for line in lines(partial(os.read, source), settings.body_limit):
            relay.handle(line)
        relay.finish(CALL_GRACE_SECONDS)
        end_signal.notify()

    threading.Thread(target=read, name="input", daemon=True).start()
    end_signal.wait()
    relay.close(CANCELLED_GRACE_SECONDS)


def _find_hub_again(settings: Settings, ending: threading.Event) -> RunningHub | None:
    """Return the hub that runs now on the data folder; wait for one that starts again, at most HUB_RETURN_SECONDS."""
    for _ in range(int(HUB_RETURN_SECONDS / LISTEN_AGAIN_SECONDS) + 1):
        hub = find_running_hub(settings)
        if hub is not None and hub.accepts_connections():
            return hub
        if ending.wait(LISTEN_AGAIN_SECONDS):
            break
    return None


class Relay:
    """One client on a pipe, and the hub. One thread at a time may call `handle`.

    `find_again` returns the hub that runs when the known one does not answer; `send` sends one JSON text to the client.
    """

    def __init__(
        self,
        find_again: Callable[[threading.Event], RunningHub | None],
        hub: RunningHub,
        endpoint: str,
        send: Callable[[bytes], None],
    ) -> None:
        self._find_again = find_again
        self._hub = hub
        self._path = f"/mcp/{endpoint}" if endpoint else "/mcp"
        self._send = send
        self._session = HubSession()
        self._threads = CallThreads(MAX_CONCURRENT_CALLS)
        self._running: dict[Id, HubRequest] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._listening: HubRequest | None = None

    def handle(self, line: bytes | TooLarge) -> None:
        """Take one line of the client."""
        value = None
        try:
            if isinstance(line, TooLarge):
                raise line
            value = parse(line)
            if not isinstance(value, list):
                message(value)
        except PatchbayError as problem:
            self._send(encode(failure(readable_id(value), problem)))
            return
        assert isinstance(line, bytes)
        request = HubRequest(self._path, line, value, self._session)
        if request.method == "notifications/cancelled" and self._cancel(value):
            return
        if not request.is_request or request.method in IN_ORDER:
            self._forward(request)
            if request.method == "notifications/initialized":
                threading.Thread(target=self._listen, name="notifications", daemon=True).start()
        elif not self._threads.run(lambda: partial(self._forward, request)):
            busy = f"busy: {MAX_CONCURRENT_CALLS} calls are running, which is the limit; try again later"
            self._send(encode(failure(request.id, Unreachable(busy))))

    def finish(self, seconds: float) -> None:
        """Wait up to so many seconds for running calls to end."""
        self._threads.wait(seconds)

    def close(self, seconds: float) -> None:
        """End the session and cancel running calls; wait up to so many seconds for their end."""
        self._ending.set()
        try:
            self._session.end(self._hub, self._path)
        except (HubAway, OSError, http.client.HTTPException) as problem:
            log.debug("the session was not ended: %s", problem)
        with self._lock:
            running = [*self._running.values(), *([self._listening] if self._listening else [])]
        for request in running:
            request.cancel()
        self._threads.wait(seconds)

    def _cancel(self, value: Any) -> bool:
        """Cancel a running request of a modern client; return whether there is one. Others the hub itself cancels."""
        params = value.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        with self._lock:
            request = self._running.get(id) if isinstance(id, (str, int)) else None
        if request is None or not request.is_modern:
            return False
        request.cancel()
        return True

    def _forward(self, request: HubRequest) -> None:
        """Send a message to the hub and its answers to the client. A request always gets an answer."""
        if request.id is not None:
            with self._lock:
                self._running[request.id] = request
        try:
            self._exchange(request)
        except PatchbayError as problem:
            self._refuse(request, problem)
        except HubAway as problem:
            away = f"the hub at {self._hub.url} does not answer ({problem}): run `patchbay doctor`"
            self._refuse(request, Unreachable(away))
        except (OSError, ValueError, http.client.HTTPException) as problem:
            self._refuse(request, Unreachable(f"the hub at {self._hub.url} ended its answer early: {problem}"))
        finally:
            if request.id is not None:
                with self._lock:
                    self._running.pop(request.id, None)

    def _exchange(self, request: HubRequest) -> None:
        """Send a message, and again only where the hub has not carried it out.

        Raises Unreachable without an answer, HubAway, OSError, HTTPException.
        """
        self._reach(request)
        if request.is_session_lost:
            self._session.open_again(self._hub, self._path, request.sent_session)
            self._reach(request)
        if request.lacks_parameters:
            request.add_parameters(self._hub)
            self._reach(request)
        is_answered = request.relay(self._send)
        while not is_answered and request.can_resume and not self._ending.wait(request.retry_seconds):
            request.resume()
            self._reach(request)
            is_answered = request.relay(self._send)
        if not is_answered:
            raise Unreachable(f"the hub at {self._hub.url} ended its answer early")

    def _refuse(self, request: HubRequest, problem: PatchbayError) -> None:
        if request.is_request and not request.is_cancelled:
            self._send(encode(failure(request.id, problem)))

    def _reach(self, request: HubRequest) -> None:
        """Send a message to the hub that runs now. Raises Unreachable without one, HubAway, OSError, HTTPException."""
        try:
            request.send(self._hub)
            return
        except HubAway:
            hub = self._find_again(self._ending)
        if hub is None:
            raise Unreachable(
                f"the hub at {self._hub.url} has stopped: start it again (`patchbay serve`), or restart this server in"
                " the client, which then needs no running hub"
            )
        self._hub = hub
        request.send(hub)

    def _listen(self) -> None:
        """Send the notifications of the session to the client until the end of the process."""
        last = ""
        while not self._ending.is_set() and self._session.id:
            request = self._listening = HubRequest(self._path, b"", None, self._session, "GET")
            request.last_event = last
            try:
                self._reach(request)
                if request.is_session_lost:
                    self._session.open_again(self._hub, self._path, request.sent_session)
                else:
                    request.relay(self._send)
            except (HubAway, OSError, ValueError, http.client.HTTPException, PatchbayError) as problem:
                log.debug("the stream of notifications ended: %s", problem)
            last = request.last_event
            self._ending.wait(LISTEN_AGAIN_SECONDS)
