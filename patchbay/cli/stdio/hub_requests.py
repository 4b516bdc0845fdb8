"""One message to a running hub over HTTP, its answers, and the session that a client of 2025-11-25 or older has.

Sources: MCP specification, basic/transports (Streamable HTTP, resumability), basic/lifecycle; 2026-07-28,
basic/transports (the headers `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*`).
"""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from patchbay.cli.running_hub import RunningHub
from patchbay.client.connection.plain_session import is_plain_header
from patchbay.client.errors import Unreachable
from patchbay.errors import NO_SESSION, HeaderMismatch
from patchbay.jsonrpc import Id, dump_json, load_json, readable_id
from patchbay.protocol.admission.headers import NAMED_BY, annotated

CONNECT_SECONDS = 10.0
"""Limit on the seconds of opening a connection to the hub. An answer has no limit here: each call has a deadline."""

RETRY_SECONDS = 1.0
"""Seconds until a stream that the hub closed before its end is read further, where the hub names no time."""

REVISION = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` that names the revision of a modern request."""

FIRST_REVISION_WITH_HEADER = "2025-06-18"
"""The first revision in which requests of a session name their revision in a header."""

WITHOUT_BODY = (202, 204)
"""Statuses of answers without a body; a kept connection does not end after them."""

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class HubAway(Exception):
    """No hub accepts connections; nothing was sent."""


class HubSession:
    """The session of the client at the hub; `id` is empty before `initialize`, and for a modern client."""

    def __init__(self) -> None:
        self.id = ""
        self.revision = ""
        self._opening = b""
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """Return the headers of a request in this session."""
        named = {"mcp-protocol-version": self.revision} if self.revision >= FIRST_REVISION_WITH_HEADER else {}
        return {"mcp-session-id": self.id, **named} if self.id else {}

    def note_opening(self, body: bytes, id: str, answer: Any) -> None:
        """Note the session that the answer to `initialize` opens; an error opens none."""
        result = answer.get("result") if isinstance(answer, dict) else None
        if isinstance(result, dict) and id:
            self.id, self.revision, self._opening = id, str(result.get("protocolVersion", "")), body

    def open_again(self, hub: RunningHub, path: str, lost: str) -> None:
        """Open a session in place of the `lost` one, with what the client sent at first.

        Without a new session the lost one stays, so that the next message opens one. Raises Unreachable, HubAway,
        OSError, HTTPException.
        """
        with self._lock:
            if self.id != lost:
                return
            opened = HubSession()
            request = HubRequest(path, self._opening, load_json(self._opening), opened)
            request.send(hub)
            request.relay(lambda message: None)
            if not opened.id:
                raise Unreachable(
                    "the hub has ended the session and opens no other one: restart this server in the client"
                )
            initialized = HubRequest(path, dump_json(INITIALIZED), INITIALIZED, opened)
            initialized.send(hub)
            initialized.relay(lambda message: None)
            self.id, self.revision = opened.id, opened.revision

    def end(self, hub: RunningHub, path: str) -> None:
        """End the session, which cancels its calls. Raises HubAway, OSError."""
        if self.id:
            request = HubRequest(path, b"", None, self, verb="DELETE")
            request.send(hub)
            request.relay(lambda message: None)


class HubRequest:
    """One message of a client, or (with `verb` GET) the stream of its session's notifications.

    `value` is the parsed `body`. Used by one thread; any thread may call `cancel`.
    """

    def __init__(self, path: str, body: bytes, value: Any, session: HubSession, verb: str = "POST") -> None:
        fields = value if isinstance(value, dict) else {}
        params = fields.get("params")
        self._params: Mapping[str, Any] = params if isinstance(params, dict) else {}
        meta = self._params.get("_meta")
        revision = meta.get(REVISION) if isinstance(meta, dict) else None
        self.method = fields["method"] if isinstance(fields.get("method"), str) else ""
        self.id: Id | None = readable_id(fields)
        self.is_request = isinstance(value, list) or (self.id is not None and bool(self.method))
        self.is_modern = isinstance(revision, str)
        self.is_cancelled = False
        self.last_event = ""
        self.retry_seconds = RETRY_SECONDS
        self._path, self._body, self._session, self._verb = path, body, session, verb
        self._revision = str(revision)
        self._parameters: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._data = b""
        self.sent_session = ""

    def send(self, hub: RunningHub) -> None:
        """Send the message and read the head of the answer; the body too, unless it is a stream.

        Raises HubAway, OSError, HTTPException.
        """
        self._close()
        address = urlsplit(hub.url)
        connection = self._connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=CONNECT_SECONDS
        )
        try:
            connection.connect()
        except OSError as problem:
            raise HubAway(str(problem)) from problem
        self._socket = connection.sock
        self._socket.settimeout(None)
        if self.is_cancelled:
            self.cancel()
        connection.request(self._verb, quote(self._path, safe="/@"), self._body or None, self._headers(hub))
        self._answer = connection.getresponse()
        has_body = self._answer.status not in WITHOUT_BODY and not self.is_stream
        self._data = self._answer.read() if has_body else b""

    def _headers(self, hub: RunningHub) -> dict[str, str]:
        found = {**hub.headers(), "accept": "application/json, text/event-stream"}
        if self._verb == "GET":
            found["accept"] = "text/event-stream"
            found |= {"last-event-id": self.last_event} if self.last_event else {}
        if self._body:
            found["content-type"] = "application/json"
        if not self.is_modern:
            self.sent_session = "" if self.method == "initialize" else self._session.id
            return found | (self._session.headers() if self.sent_session else {})
        name = self._params.get(NAMED_BY.get(self.method, ""))
        named = {"mcp-name": encode_header(name)} if isinstance(name, str) else {}
        return {
            **found,
            "mcp-protocol-version": encode_header(self._revision),
            "mcp-method": encode_header(self.method),
            **named,
            **self._parameters,
        }

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events."""
        assert self._answer is not None
        return self._answer.headers.get_content_type() == "text/event-stream"

    @property
    def is_session_lost(self) -> bool:
        """Whether the hub refused the message because the session has ended. It has not carried out the message."""
        error = self._error()
        return bool(self.sent_session) and str(error.get("message", "")).startswith(NO_SESSION)

    @property
    def lacks_parameters(self) -> bool:
        """Whether the hub refused a call because headers do not repeat its arguments."""
        is_call = self.is_modern and self.method == "tools/call" and not self._parameters
        return is_call and self._error().get("code") == HeaderMismatch.code

    def _error(self) -> Mapping[str, Any]:
        try:
            value = load_json(self._data) if self._data else None
        except ValueError:
            return {}
        error = value.get("error") if isinstance(value, dict) else None
        return error if isinstance(error, dict) else {}

    def add_parameters(self, hub: RunningHub) -> None:
        """Find the arguments that the tool wants in headers, from its schema, for the next `send`."""
        arguments, meta = self._params.get("arguments"), {"_meta": self._params["_meta"]}
        cursor: dict[str, str] = {}
        while True:
            asked = {"jsonrpc": "2.0", "id": "relay", "method": "tools/list", "params": {**meta, **cursor}}
            request = HubRequest(self._path, dump_json(asked), asked, self._session)
            pages: list[bytes] = []
            request.send(hub)
            request.relay(pages.append)
            result = load_json(pages[-1]).get("result", {}) if pages else {}
            for tool in result.get("tools", ()):
                if tool.get("name") == self._params.get("name"):
                    self._parameters = make_parameter_headers(tool.get("inputSchema", {}), arguments)
                    return
            if not isinstance(result.get("nextCursor"), str):
                return
            cursor = {"cursor": result["nextCursor"]}

    def relay(self, send: Callable[[bytes], None]) -> bool:
        """Send the answers on; return whether the message is answered. Raises Unreachable, OSError, HTTPException.

        A stream that ends without the answer can be read further where `can_resume` says so.
        """
        try:
            return self._relay_stream(send) if self.is_stream else self._relay_body(send)
        finally:
            self._close()

    def _relay_body(self, send: Callable[[bytes], None]) -> bool:
        assert self._answer is not None
        if not self.is_request:
            return True
        if not self._data:
            if self._answer.status >= 400:
                raise Unreachable(f"the hub answered with the HTTP status {self._answer.status}")
            return True  # a cancelled request gets no answer
        try:
            value = load_json(self._data)
        except ValueError as problem:
            raise Unreachable(
                f"the hub answered with the HTTP status {self._answer.status}, and not with JSON"
            ) from problem
        if isinstance(value, dict) and value.get("id") is None and self.id is not None:
            value["id"] = self.id
            self._data = dump_json(value)
        self._note(value)
        send(self._data)
        return True

    def _relay_stream(self, send: Callable[[bytes], None]) -> bool:
        for data in self._events():
            value = load_json(data)
            self._note(value)
            send(data)
            if isinstance(value, dict) and "method" not in value and value.get("id") == self.id:
                return True
        return self.is_cancelled or not self.is_request

    def _note(self, value: Any) -> None:
        if self.method == "initialize":
            assert self._answer is not None
            self._session.note_opening(self._body, self._answer.headers.get("mcp-session-id", ""), value)

    def _events(self) -> Iterator[bytes]:
        """Yield the data of each event; note its id."""
        assert self._answer is not None
        data: list[bytes] = []
        while line := self._answer.readline():
            name, _, text = line.rstrip(b"\r\n").partition(b":")
            text = text.removeprefix(b" ")
            if name == b"data":
                data.append(text)
            elif name == b"id":
                self.last_event = text.decode("ascii", "replace")
            elif name == b"retry" and text.isdigit():
                self.retry_seconds = int(text) / 1000
            elif not name and not text:
                if message := b"\n".join(data):
                    yield message
                data = []

    @property
    def can_resume(self) -> bool:
        """Whether the rest of a stream is kept for its session."""
        return bool(self.last_event and self.sent_session) and self.is_stream

    def resume(self) -> None:
        """Let the next `send` ask for the rest of the stream."""
        self._verb, self._body = "GET", b""

    def _close(self) -> None:
        for each in (self._answer, self._connection):
            if each is not None:
                each.close()

    def cancel(self) -> None:
        """Close the connection: that cancels a modern call. Any thread may do this."""
        self.is_cancelled = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def make_parameter_headers(schema: Mapping[str, Any], arguments: Any) -> dict[str, str]:
    """Return the headers that repeat arguments, as the schema of their tool says (`x-mcp-header`)."""
    found = {}
    for name, path in annotated(schema):
        value = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            found[f"mcp-param-{name}"] = encode_header(value if isinstance(value, str) else dump_json(value).decode())
    return found


def encode_header(text: str) -> str:
    """Return a text as the value of a header of 2026-07-28: as it is, or in the base64 form."""
    return text if is_plain_header(text) else f"=?base64?{base64.b64encode(text.encode()).decode()}?="
