"""The pair of routes of 2024-11-05: a stream that begins with the address to post to, and that address.

`GET /mcp/<server>/sse` is the stream, `POST /mcp/<server>/messages?session=...` takes messages and answers 202.
Every message of the server comes on the stream, from every process that receives a post; the session ends with its
stream.
Source: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from urllib.parse import parse_qs

from patchbay.background import run_in_background
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidRequest, PatchbayError, UnknownServer, UnknownSession
from patchbay.events import Pause, Wait, wait_blocking
from patchbay.jsonrpc import encode, failure, parse, readable_id
from patchbay.messages.callers import LegacySession, TransportInfo
from patchbay.protocol.admission.handshake import ConnectionState
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.results.event_limits import fitted
from patchbay.protocol.streams.legacy_channels import Channel
from patchbay.protocol.streams.subscriptions import NumberedMessage
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.views.sse import COMMENT, address, event
from patchbay.wire.pipes.call_threads import CallThreads
from patchbay.wire.pipes.conversations import Conversation
from patchbay.wire.replies.accept import JSON, accepted_forms
from patchbay.wire.replies.reply import ListeningBody, Reply, busy, json_reply, refusal, stream_reply
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.bodies import media_type, read_body
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.request import Background, Request

log = logging.getLogger(__name__)

_PATH = re.compile(r"/mcp/([^/]+)/(sse|messages)")


class HttpSse:
    """Answers the two routes of every server. `ending` says that the hub stops."""

    def __init__(self, dispatcher: Dispatcher, settings: Settings, ending: Callable[[], bool]) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._ending = ending
        self._threads = CallThreads(settings.threads)

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one of another path."""
        found = _PATH.fullmatch(request.path)
        # `/mcp/meta/sse` is the page about a server with the name `sse`.
        if found is None or found[1] == "meta":
            return None
        return partial(self._answer, found[1], self._stream if found[2] == "sse" else self._message)

    def _answer(self, endpoint: str, answer: Callable[[Request, str], Reply], request: Request) -> Reply:
        return with_cors(request, self._reply(request, endpoint, answer))

    def _reply(self, request: Request, endpoint: str, answer: Callable[[Request, str], Reply]) -> Reply:
        """Return the answer to a request; errors are JSON-RPC messages, never a page."""
        try:
            self._dispatcher.server(endpoint, request.sender)
            return Reply(204) if request.method == "OPTIONS" else answer(request, endpoint)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        except Exception:
            return json_reply(failure(None, incident(log, "at the pair of 2024-11-05")), 500)

    def _stream(self, request: Request, endpoint: str) -> Reply:
        """Open a channel; its stream begins with the address to post to."""
        if request.method != "GET":
            return refusal(405, "this address accepts only GET", ("Allow", "GET"))
        if not accepted_forms(request.headers.get("accept", ""))[1]:
            return refusal(406, "GET returns a stream here: Accept has to name text/event-stream")
        wire = TransportInfo(endpoint, sender=request.sender, way="http+sse")
        release = self._dispatcher.places.open(wire.sender, endpoint)
        if release is None:
            return busy(None)
        try:
            seconds = self._settings.session_hours * 3600
            channel = Channel.open(self._store(), endpoint, wire.principal, seconds, self._dispatcher.services.ledger)
        except BaseException:
            release()
            raise
        background = request.background or _in_thread
        to = request.link(f"/mcp/{endpoint}/messages?session={channel.id}")
        reply = stream_reply(ListeningBody(self._frames(to, channel, wire, background)))
        # The end of a body that never began is not reported to it; this callback always runs.
        reply.at_close = lambda: self._close(channel, wire, release)
        return reply

    def _frames(self, to: str, channel: Channel, wire: TransportInfo, background: Background) -> Iterator[bytes | Wait]:
        """Yield the address `to` which the client posts, and then its messages."""
        yield address(to)
        is_listening = False
        for item in channel.messages(
            self._settings.keepalive,
            self._ending,
            partial(self._busy, channel, wire),
            partial(self._dispatcher.services.access.is_current, wire.sender),
        ):
            if channel.session_id is not None and not is_listening:
                is_listening = True
                self._tell_changes(channel, wire, background)
            if isinstance(item, Wait):
                yield item
            else:
                yield COMMENT if isinstance(item, Pause) else event(item)

    def _busy(self, channel: Channel, wire: TransportInfo) -> bool:
        """Whether a request of this channel runs in this process."""
        try:
            session = self._session(channel, wire)
        except UnknownSession:
            return False
        return session is not None and self._dispatcher.services.running.busy(session.nonce)

    def _tell_changes(self, channel: Channel, wire: TransportInfo, background: Background) -> None:
        """Send the changes of the server on the stream; the session is known since the first answer."""
        with suppress(UnknownServer, UnknownSession):  # both may have ended since
            server = self._dispatcher.server(wire.endpoint, wire.sender)
            session = self._session(channel, wire)
            assert session is not None
            changes = self._dispatcher.services.listeners.stream(server, session, None, wire.sender)
            next(changes)
            background(_send_changes(changes, channel))

    def _close(self, channel: Channel, wire: TransportInfo, release: Callable[[], None]) -> None:
        release()
        channel.read_changes()
        channel.change(ended=True)
        with suppress(UnknownSession):  # it is over already
            session = self._session(channel, wire)
            if session is not None:
                self._dispatcher.end(session, "its stream was closed")

    def _message(self, request: Request, endpoint: str) -> Reply:
        """Take one message, or an array if the session's revision has arrays."""
        if request.method != "POST":
            return refusal(405, "this address accepts only POST", ("Allow", "POST"))
        kind = request.headers.get("content-type") or ""
        if media_type(kind) != JSON:
            return refusal(415, f"Content-Type has to be {JSON}; it is {kind or 'missing'}")
        wire = TransportInfo(
            *(endpoint, None, request.sender),
            way="http+sse",
            find_base_url=partial(find_base_url, request),
            find_header=request.headers.get,
        )
        channel = self._channel(request, wire)
        value = parse(read_body(request, self._settings.body_limit))
        try:
            self._conversation(channel, wire).handle(value)
        except PatchbayError as problem:
            return json_reply(failure(readable_id(value), problem), problem.status)
        return Reply(202)

    def _channel(self, request: Request, wire: TransportInfo) -> Channel:
        named = parse_qs(request.query).get("session", [])
        if len(named) != 1:
            raise InvalidRequest("?session= is missing; open the stream first, and post to the address it begins with")
        seconds = self._settings.session_hours * 3600
        ledger = self._dispatcher.services.ledger
        return Channel.find(self._store(), named[0], wire.endpoint, wire.principal, seconds, ledger)

    def _conversation(self, channel: Channel, wire: TransportInfo) -> Conversation:
        def save_session(session: LegacySession, server: Server) -> None:
            channel.change(session=session.id)

        session = self._session(channel, wire)
        connection = ConnectionState(wire, self._dispatcher.services.sessions, session, handshake_only=True)
        keep = self._dispatcher.services.keep(wire.principal)
        return Conversation(
            self._dispatcher, connection, channel.send, self._threads, save_session, lambda sent: fitted(sent, keep)
        )

    def _session(self, channel: Channel, wire: TransportInfo) -> LegacySession | None:
        id = channel.session_id
        return None if id is None else self._dispatcher.services.sessions.find(id, wire.endpoint, wire.principal)

    def _store(self) -> Store:
        return self._dispatcher.services.catalogue.store


def _send_changes(changes: Iterator[NumberedMessage | Pause | Wait], channel: Channel) -> Iterator[Wait]:
    """Send the changes on the channel; yields only Waits."""
    for item in changes:
        # The end of an expired session is not recorded; then only this check shows that the client has left.
        if channel.state.get("ended"):
            return
        if isinstance(item, Wait):
            yield item
        elif isinstance(item, NumberedMessage) and item.message is not None:
            channel.send(encode(item.message))


def _in_thread(steps: Iterator[Wait]) -> None:
    """Run steps in a separate thread, for a web server without an event loop for them."""
    run_in_background("changes", deque, wait_blocking(steps), 0)
