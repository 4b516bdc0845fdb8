"""The front: takes every request of the hub's own web server (`wire/server/`), on a thread of that server.

A request whose body is short waits for it without a thread; then the pipeline answers it on the thread that brought the
body, or on a further one (`request_threads.py`). A request that asks to become a WebSocket passes the same pipeline,
which accepts or refuses it.
Sources: https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md; RFC 6455.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.settings import SHARED, Settings
from patchbay.wire.endpoints.websocket_routes import Upgrade
from patchbay.wire.front.answers import StartedAnswer, send_answer
from patchbay.wire.front.call_streams import CallStreams, Reader
from patchbay.wire.front.fair_queue import FairQueue, find_sender
from patchbay.wire.front.request_threads import RequestThreads, Work
from patchbay.wire.front.waiting_streams import WaitingStreams
from patchbay.wire.front.websockets import GOODBYE_SECONDS, WebSockets
from patchbay.wire.replies.reply import Later, Reply, call_part, listening_part
from patchbay.wire.requests.request import Body, Request
from patchbay.wire.requests.rsgi import (
    COLLECTED_BYTES,
    ArrivingBody,
    Future,
    Headers,
    HttpProtocol,
    RsgiRequests,
    Scope,
)

log = logging.getLogger(__name__)


class Front:
    """Takes the requests of one worker, which `answer` answers, on `threads`."""

    def __init__(self, answer: Callable[[Request], Reply], settings: Settings, threads: RequestThreads) -> None:
        self._answer = answer
        self._port = settings.port
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._prefix = settings.path_prefix
        self._threads = threads
        self.loop = self._loop = threads.loop
        # In other modes all senders are one principal.
        self._fair = FairQueue(threads, self._loop) if settings.mode == SHARED else None
        self._streams = WaitingStreams(self._loop)
        self._calls = CallStreams(self._streams, threads)
        self._requests = RsgiRequests(self._proxies, self._prefix, self._streams)
        self.websockets = WebSockets(settings, self._loop)
        self.connections: int | None = None
        """Limit on the connections that the web server takes, if it is lower than its own."""

    def __call__(self, scope: Scope, protocol: Any) -> None:
        """Take one request; called by the web server on one of its threads, which has nothing to catch an error."""
        try:
            if scope.proto == "http":
                self._handle(scope, protocol)
            else:
                self._run(scope, scope.headers, partial(self._upgrade, scope, protocol))
        except Exception:
            log.exception("a request could not be taken")
            if scope.proto == "http":
                protocol.response_empty(500, [])
            else:
                protocol.close(500)

    def drain(self) -> None:
        """End the waiting streams and WebSockets, because the hub stops; from any thread."""
        self.websockets.drain()

    def finish(self) -> None:
        """Wait a moment for the clients of closed connections; then the process may end."""
        self.websockets.wait_closed(2 * GOODBYE_SECONDS)

    def _handle(self, scope: Scope, protocol: HttpProtocol) -> None:
        headers = scope.headers
        announced = headers.get("content-length")
        if (announced is None and headers.get("transfer-encoding") is None) or announced == "0":
            self._run(scope, headers, partial(self._reply, scope, headers, protocol, Body(is_whole=True)))
        elif announced is not None and announced.isdigit() and int(announced) <= COLLECTED_BYTES:
            begun = time.monotonic()
            protocol().add_done_callback(partial(self._collected, scope, headers, protocol, begun), None)
        else:
            body = Body(io.BufferedReader(ArrivingBody(protocol)))
            self._run(scope, headers, partial(self._reply, scope, headers, protocol, body))

    def _collected(self, scope: Scope, headers: Headers, protocol: HttpProtocol, begun: float, body: Future) -> None:
        """On a thread of the web server, when a short body has arrived, or its connection has ended."""
        try:
            data = body.result()
        except Exception:  # the web server's own class: the connection ended before the body did
            data = b""
        arrived = Body(io.BytesIO(data), begun, is_whole=True)
        self._run(scope, headers, partial(self._reply, scope, headers, protocol, arrived))

    def _run(self, scope: Scope, headers: Headers, work: Work) -> None:
        """Run the work of a request on the threads, in shared mode in the turns of its sender."""
        if self._fair is None:
            self._threads.run(work)
        else:
            self._fair.run(find_sender(scope, headers, self._port, self._proxies, self._prefix), work)

    def _reply(self, scope: Scope, headers: Headers, protocol: HttpProtocol, body: Body) -> None:
        try:
            self._send_reply(scope, protocol, self._answer(self._requests.make(scope, headers, body)))
        except Exception:
            _fail(scope, protocol)

    def _settle(self, scope: Scope, protocol: HttpProtocol, steps: Later, reader: Reader | None) -> None:
        """Run steps until their next wait, or until they return the reply, which is sent.

        With a `reader`, they end when the client has left.
        """
        try:
            wait = None
            while wait is None:
                if reader is not None and reader.is_gone():
                    reader.end()
                    steps.close()
                    protocol.response_empty(500, [])
                    return
                try:
                    wait = next(steps)
                except StopIteration as end:
                    if reader is not None:
                        reader.end()
                    self._send_reply(scope, protocol, end.value)
                    return
                if reader is not None:
                    reader.watch()
            self._calls.rest(wait, partial(self._settle, scope, protocol, steps, reader), reader)
        except Exception:
            _fail(scope, protocol)

    def _send_reply(self, scope: Scope, protocol: HttpProtocol, reply: Reply) -> None:
        if reply.later is not None:
            reader = Reader(protocol, scope.client, reply.leave) if reply.leave is not None else None
            self._settle(scope, protocol, reply.settle(), reader)
            return
        if type(reply.body) is bytes and reply.at_close is None:
            protocol.response_bytes(reply.status, reply.head, reply.body)
            return
        start = StartedAnswer()
        self._send(scope, protocol, start, reply.send(start))

    def _send(self, scope: Scope, protocol: HttpProtocol, start: StartedAnswer, answer: Iterable[bytes]) -> None:
        close = getattr(answer, "close", _do_nothing)
        if (waiting := listening_part(answer)) is not None:
            self._streams.send(protocol, scope.client, start, waiting.steps, close)
        elif (call := call_part(answer)) is not None:
            self._calls.send(protocol, scope.client, start, call, close)
        else:
            send_answer(protocol, scope.client, start, answer)

    def _upgrade(self, scope: Scope, end: Any) -> None:
        """Have the pipeline check a request for a WebSocket; send its answer, or open the WebSocket."""
        status, reply = 500, None
        try:
            request = self._requests.make(scope, scope.headers, Body(is_whole=True), may_upgrade=True)
            reply = self._answer(request).settle_on_thread()
            status = reply.status
            if not isinstance(reply, Upgrade):
                closing = getattr(reply.send(StartedAnswer()), "close", _do_nothing)
                closing()
        except Exception:
            log.exception("the check of the WebSocket %s failed", scope.path)
        if isinstance(reply, Upgrade):
            self.websockets.begin(scope, end, reply)
        else:
            # A page answers 200 or a redirect to a request that its path has no WebSocket for.
            end.close(status if status >= 400 else 404)


def _do_nothing() -> None:
    """Close a body that has nothing to close."""


def _fail(scope: Scope, protocol: HttpProtocol) -> None:
    """Log the exception that is being handled, and answer 500."""
    log.exception("the answer to %s %s failed", scope.method, scope.path)
    protocol.response_empty(500, [])
