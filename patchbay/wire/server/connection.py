"""One connection: receives and parses requests in their order, and sends their answers.

llhttp, the parser of Node.js, parses (`httptools`); what it leaves to its user is checked here: the version, the
sizes of heads, of chunk extensions and of the framing of a body, trailers, and requests to change the protocol.
The next request begins when the answer to the one before is sent, and no bytes are received meanwhile.
Sources: RFC 9112; RFC 6455, section 4.2.1; https://man7.org/linux/man-pages/man7/epoll.7.html (edge-triggered).
"""

from __future__ import annotations

import re
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import httptools

from patchbay.errors import InvalidRequest
from patchbay.jsonrpc import encode, failure
from patchbay.wire.server.exchange import ClientLeft, Exchange

RECEIVED_BYTES, FIRST_BYTES = 64 * 1024, 8 * 1024
"""Most bytes of one system call: while a request runs, which may have a long body, and before that."""

MAX_WAITING_REQUESTS = 512
"""Requests of one connection that have arrived, and wait for the answers to those before them."""

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100

LONG_LINE = f"the request line has more than {MAX_HEAD_BYTES} bytes"

MAX_FRAMING_BYTES = 64 * 1024
"""Bytes of a body in chunks that are not its content, beside FRAMING_BYTES of each chunk."""

FRAMING_BYTES = 24

REQUEST_LINE = re.compile(rb"[\r\n]*[A-Z][A-Z-]* [!$-~]+ HTTP/1\.[01]\r\n")
PART_OF_LINE = re.compile(rb"[\r\n]*(?:[A-Z][A-Z-]*(?: (?:[!$-~]+(?: [HTP/1.0]*\r?)?)?)?)?")
"""What one may be, and a part of one that has not arrived whole. A target has neither quotes nor a fragment."""

EMPTY_LINE = b"\r\n\r\n"
"""The end of each head, and of each body in chunks, which has no trailers here."""

NO_HANDSHAKE = "a WebSocket begins with a GET without a body, with Sec-WebSocket-Version: 13 and Sec-WebSocket-Key"

READING = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET

Work = Callable[[], None]


class Owner(Protocol):
    """The server of a connection."""

    name: str
    is_stopping: bool
    front: Callable[[Any, Any], None]

    def arm(self, descriptor: int, events: int) -> None: ...
    def leave_alone(self, connection: Connection) -> None: ...
    def forget(self, connection: Connection) -> None: ...
    def close_later(self, connection: Connection) -> None: ...


class Connection:
    """One connection of an HTTP server. Methods run on any thread."""

    __slots__ = (
        *(
            "_exchange",
            "_lock",
            "_making",
            "_framing",
            "_parser",
            "_sending",
            "_unsent",
            "_has_end",
            "_has_more",
            "_work",
        ),
        *("_arrived", "_broken", "_closing", "_ended", "_gone", "_head_bytes", "_readable", "_stirred"),
        *("_handed_over", "client", "server", "server_name", "socket", "descriptor", "_lingers", "_lines"),
        *("_begun", "_body_left", "_fed", "_is_between", "_line", "_plain_left"),
    )

    def __init__(self, server: Owner, accepted: socket.socket, client: str) -> None:
        self.server = server
        self.server_name = server.name
        self.client = client
        self.socket = accepted
        self.descriptor = accepted.fileno()
        self._lock = threading.Lock()  # held by the thread that receives and parses
        # The garbage collector may end a stream in any thread, also in one that is sending here.
        self._sending = threading.RLock()
        self._stirred = self._readable = False
        self._unsent: deque[memoryview] | tuple[()] = ()
        self._arrived: list[Exchange] = []
        self._exchange: Exchange | None = None
        self._making: Exchange | None = None
        self._head_bytes = self._framing = self._lines = self._begun = self._body_left = self._plain_left = 0
        self._is_between = True
        self._line = self._fed = b""
        self._work: list[Work] = []
        self._broken: tuple[int, str] | None = None
        self._ended = self._gone = self._closing = self._has_end = self._has_more = self._handed_over = (
            self._lingers
        ) = False
        self._parser: httptools.HttpRequestParser | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the server stops: the connection ends after the present answer."""
        return self.server.is_stopping

    # The threads of the server.

    def handle(self, events: int) -> None:
        """Handle what epoll reported."""
        if events & select.EPOLLOUT:
            self._flush()
        if events & ~select.EPOLLOUT:
            if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                self._has_end = True
                if self._exchange is not None:
                    self._check_left()
            self._readable = True
        self.run()

    def run(self) -> None:
        """Receive and begin requests, as long as there is anything to do."""
        while True:
            self._stirred = True
            if not self._lock.acquire(False):
                return  # the thread that has the lock looks again
            self._stirred = False
            try:
                begun = self._advance()
                work, self._work = self._work, []
            finally:
                self._lock.release()
            for each in work:
                each()
            if begun is not None:
                self.server.front(begun, begun)
            elif not self._stirred and not work:
                return

    def _advance(self) -> Exchange | None:
        """Receive until a request can begin or nothing is left; return that request."""
        while True:
            exchange = self._exchange
            if self._gone or self._handed_over:
                if self._gone:
                    self._cut(ClientLeft("the connection was reset"))
                    if exchange is None:
                        self._close()
                return None
            if exchange is None:
                if self._unsent:
                    return None
                if self._closing:
                    self._end_gently()
                    return None
                if self._arrived:
                    self._exchange = begun = self._arrived.pop(0)
                    return begun
                if self._broken is not None:
                    self._refuse(*self._broken)
                    continue
                if self._ended or self._stops_now():
                    self._end_gently()
                    return None
            elif exchange.is_complete or exchange.is_full or self._arrived:
                if exchange.is_streamed and self._is_between:
                    self._parser = None  # the next request gets another one: a stream may rest for hours
                return None
            if not self._readable or self._ended or self._broken:
                return None
            self._receive()

    def _stops_now(self) -> bool:
        """Whether the server stops, and no request has begun to arrive."""
        return self.server.is_stopping and self._making is None and not self._line and not self._readable

    def _receive(self) -> None:
        self._readable = False
        size = RECEIVED_BYTES if self._exchange is not None else FIRST_BYTES
        try:
            data = self.socket.recv(size)
        except BlockingIOError:
            return
        except OSError:
            self._gone = True
            self._cut(ClientLeft("the connection was reset"))
            return
        # Fewer bytes than asked for are all there are; then epoll reports the next ones, but an end only once.
        if len(data) == size or self._has_end:
            self._readable = True
        if not data:
            self._ended = True
            self._cut(ClientLeft("the connection ended before the body did"))
            return
        if not self._closing:
            self._feed(data)

    def _cut(self, problem: BaseException) -> None:
        """End the body that is arriving, if there is one."""
        for exchange in (self._exchange, *self._arrived):
            if exchange is not None and not exchange.is_complete:
                exchange.keeps_alive = False
                exchange.end_body(problem)
                self._tell(exchange.find_news())

    def _tell(self, work: Work | None) -> None:
        if work is not None:
            self._work.append(work)

    def _feed(self, data: bytes) -> None:
        """Parse bytes; the requests that begin in them are in `_arrived` afterwards."""
        data, self._line = self._line + data, b""
        at = 0
        while at < len(data) and self._broken is None:
            at = self._take_plain(data, at) if self._plain_left else self._parse(data, at)

    def _parse(self, data: bytes, at: int) -> int:
        """Give the bytes from `at` to the parser, up to where the request may end; return where to go on.

        So each request begins with the bytes of one call of the parser, and its line is checked before: the parser
        accepts more of the second line in the same bytes.
        """
        end_of_line = at
        if self._is_between:
            line = REQUEST_LINE.match(data, at)
            if line is None:
                self._hold_line(data[at:])
                return len(data)
            if line.end() - at > MAX_HEAD_BYTES:
                self._break(414, LONG_LINE)
                return len(data)
            self._fed, end_of_line, self._head_bytes = b"", line.end() - 2, 0
        end = self._find_end(data, at, end_of_line)
        piece = data[at:end]
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        if self._is_between or self._making is not None:
            self._head_bytes += len(piece)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._break(431, f"the head of the request has more than {MAX_HEAD_BYTES} bytes")
                return len(data)
        self._framing += len(piece)
        self._begun = 0
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as found:
            return self._stay(data, at + found.args[0])
        except httptools.HttpParserError as problem:
            reason = problem.__context__ if isinstance(problem, httptools.HttpParserCallbackError) else problem
            self._break(getattr(reason, "status", 400), str(reason))
            return len(data)
        self._fed = piece[-3:] if len(piece) > 2 else (self._fed + piece)[-3:]
        if self._making is None and self._framing > MAX_FRAMING_BYTES:
            self._break(400, "the chunks of the body have too many bytes that are not content")
        return end

    def _find_end(self, data: bytes, at: int, end_of_line: int) -> int:
        """Return where a request may end at the earliest: its body is counted, or ends with an empty line.

        `end_of_line` is where its first line ends, if the line is in these bytes.
        """
        if self._body_left:
            return min(len(data), at + self._body_left)
        # The empty line may have begun in the bytes of the call before.
        found = (self._fed + data[at : at + 3]).find(EMPTY_LINE) if self._fed else -1
        if found >= 0:
            return at + found + len(EMPTY_LINE) - len(self._fed)
        found = data.find(EMPTY_LINE, end_of_line)
        return len(data) if found < 0 else found + len(EMPTY_LINE)

    def _stay(self, data: bytes, at: int) -> int:
        """Go on after a request that asks for another protocol, where the parser ends: also before its body.

        Return where to go on; `at` is the end of the head.
        """
        latest = self._latest
        headers = latest.headers
        if latest.proto == "ws":
            if at < len(data):
                self._arrived.pop()
                self._break(400, "bytes follow the request for a WebSocket before its answer")
            return len(data)
        if latest.method == "CONNECT" or "transfer-encoding" in headers:  # also one that cannot be read
            self._arrived.pop()
            self._break(400, "CONNECT, and a body in chunks with a request for another protocol, are not served")
            return len(data)
        # Another protocol is not served: the request gets its usual answer (RFC 9110, 7.8).
        self._parser = None
        self._plain_left, self._body_left = self._body_left, 0
        latest.is_complete = not self._plain_left
        return at

    def _take_plain(self, data: bytes, at: int) -> int:
        """Take bytes of the body of such a request, from `at` on; return where to go on."""
        piece = data[at : at + self._plain_left]
        self._plain_left -= len(piece)
        self._latest.add(piece)
        if not self._plain_left:
            self._latest.end_body()
        self._tell(self._latest.find_news())
        return at + len(piece)

    def _hold_line(self, data: bytes) -> None:
        """Keep the beginning of a request line until the rest arrives; refuse any other bytes."""
        if PART_OF_LINE.fullmatch(data) is None:
            self._break(400, "expected a line such as GET /path HTTP/1.1 with one space between its parts")
        elif len(data) > MAX_HEAD_BYTES:
            self._break(414, LONG_LINE)
        else:
            self._line = data

    def _break(self, status: int, reason: str) -> None:
        """Read no further: what follows cannot be told apart any more."""
        self._broken = (status, reason)
        # A request that has not begun, and whose body cannot be read, does not begin.
        self._arrived = [exchange for exchange in self._arrived if exchange.is_complete]
        self._cut(ClientLeft(reason))

    # The parser calls these.

    def on_message_begin(self) -> None:
        if len(self._arrived) >= MAX_WAITING_REQUESTS:
            raise Malformed(f"more than {MAX_WAITING_REQUESTS} requests wait for their answers")
        if self._begun:
            raise Malformed("a request begins before the one before it can have ended")
        self._making = Exchange(self)
        self._lines = 0
        self._begun += 1
        self._is_between = False

    def on_url(self, piece: bytes) -> None:
        assert self._making is not None
        self._making.target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        making = self._making
        if making is None:
            raise Malformed("the body has trailers")
        self._lines += 1
        if self._lines > MAX_HEADERS:
            raise Malformed(f"the request has more than {MAX_HEADERS} headers", 431)
        if value.isascii():
            making.lines.append((name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")))
        else:
            making.others.append(name.decode("latin-1").lower())

    def on_headers_complete(self) -> None:
        making, self._making = self._making, None
        parser = self._parser
        assert making is not None and parser is not None
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise Malformed(f"HTTP/{version} is not served: expected HTTP/1.1")
        fault = making.take_head(parser.get_method().decode("latin-1"), version, parser.should_keep_alive())
        headers = making.headers
        if fault:
            raise Malformed(fault)
        if "transfer-encoding" in headers:
            if version == "1.0":
                raise Malformed("a request of HTTP/1.0 has no Transfer-Encoding")
            codings = ",".join(headers.get_all("transfer-encoding")).lower()
            if codings != "chunked":  # RFC 9112, section 6.1 and 6.3
                status = 501 if codings.rpartition(",")[2].strip() == "chunked" else 400
                raise Malformed("the body has a coding other than chunked, which is not served", status)
        making.expects = version == "1.1" and headers.get("expect", "").lower() == "100-continue"
        if parser.should_upgrade() and headers.get("upgrade", "").lower() == "websocket":
            if not making.is_handshake():
                raise Malformed(NO_HANDSHAKE)
            making.proto = "ws"
        self._arrived.append(making)
        self._framing = 0
        self._body_left = int(headers.get("content-length") or 0)

    def on_body(self, piece: bytes) -> None:
        self._framing -= len(piece)
        self._body_left = max(0, self._body_left - len(piece))
        self._latest.add(piece)
        self._tell(self._latest.find_news())

    def on_chunk_header(self) -> None:
        self._framing -= FRAMING_BYTES

    def on_message_complete(self) -> None:
        self._is_between = True
        latest = self._latest
        latest.end_body()
        self._tell(latest.find_news())

    @property
    def _latest(self) -> Exchange:
        """The request that is arriving."""
        latest = self._arrived[-1] if self._arrived else self._exchange
        assert latest is not None
        return latest

    # The answers, on any thread.

    def write(self, data: bytes, more: bytes = b"") -> None:
        """Send bytes after those that wait. Raises ClientLeft."""
        with self._sending:
            if self._gone:
                raise ClientLeft("the connection is closed")
            if self._unsent:
                self._keep(data, more)
                return
            try:
                sent = self.socket.sendmsg((data, more)) if more else self.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as problem:
                raise ClientLeft(str(problem)) from problem
            if sent < len(data) + len(more):
                self._keep(memoryview(data)[sent:], memoryview(more)[max(0, sent - len(data)) :])
                self.server.arm(self.descriptor, READING | select.EPOLLOUT)

    def _keep(self, *pieces: bytes | memoryview) -> None:
        """Keep bytes until the client has read those before them."""
        unsent = self._unsent
        if isinstance(unsent, tuple):
            self._unsent = unsent = deque()
        unsent.extend(memoryview(piece) for piece in pieces if piece)

    def _flush(self) -> None:
        """Send what waits."""
        with self._sending:
            unsent = self._unsent
            while unsent and not self._gone:
                piece = unsent[0]
                try:
                    sent = self.socket.send(piece)
                except BlockingIOError:
                    return
                except OSError:
                    self._unsent = ()
                    return
                if sent < len(piece):
                    unsent[0] = piece[sent:]
                else:
                    unsent.popleft()
            if not self._gone:
                self.server.arm(self.descriptor, READING)

    def end_exchange(self, exchange: Exchange, data: bytes = b"", more: bytes = b"") -> None:
        """End a request with the last bytes of its answer; a client that has left gets none.

        A quick client sends its next request before this thread goes on. So that one may begin from now on; its answer
        waits for these bytes.
        """
        goes_on = False
        with self._sending:
            if is_present := self._exchange is exchange:
                if not exchange.keeps_alive or not exchange.is_complete:
                    self._closing = True
                    self._has_more = self._has_more or not exchange.is_complete
                self._exchange = None
                goes_on = bool(self._arrived or self._readable or self._closing or self._ended or self._broken)
            if data:
                with suppress(OSError):
                    self.write(data, more)
        if is_present and self._gone:
            self.run()
        elif goes_on or (is_present and self.server.is_stopping):
            self.go_on()

    def go_on(self) -> None:
        """Have a thread of the server continue with this connection."""
        if self._gone:
            self.run()
        else:
            self.server.arm(self.descriptor, READING | select.EPOLLOUT)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what cannot be read as a request."""
        exchange = Exchange(self)
        exchange.method, exchange.http_version, exchange.keeps_alive = "GET", "1.1", False
        exchange.is_complete = True
        self._closing = self._has_more = True
        body = encode(failure(None, InvalidRequest(f"the request cannot be read: {reason}")))
        exchange.response_bytes(status, [("Content-Type", "application/json")], body)

    # The end.

    def _check_left(self) -> None:
        """Tell the running request when its client has left."""
        poll = select.poll()
        try:
            poll.register(self.descriptor, select.POLLRDHUP)
            found = poll.poll(0)
        except OSError:
            return
        exchange = self._exchange
        if not found or exchange is None:
            return
        if found[0][1] & (select.POLLHUP | select.POLLERR):
            self._gone = True
            with self._sending:
                self._unsent = ()
        told = exchange.leave()
        if told is not None:
            told()

    def _end_gently(self) -> None:
        """Close the connection; where the client may still be sending, when it has closed its end, or seconds later.

        A client that sends to a closed connection could lose the answer (RFC 9112, 9.6).
        """
        with self._sending:
            if self._unsent:
                return
            if self._ended or self._lingers:
                self._gone = self._ended
            else:
                try:
                    self.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    self._gone = True
        if self._gone:
            self._close()
            return
        if self._has_more and not self._lingers:
            self._closing = self._lingers = True
            self.server.close_later(self)
        self._readable = True
        while self._readable and not self._is_over():
            self._receive()
        if self._is_over() or not self._has_more:
            self._gone = True
            self._close()

    def _is_over(self) -> bool:
        """Whether the client has closed its end, or the connection is broken."""
        return self._ended or self._gone

    def end_now(self) -> None:
        """Close the connection, unless it is the WebSocket's."""
        if not self._handed_over:
            self._gone = True
            self.run()

    def give_up(self) -> None:
        """Close the connection after an error of the hub: its request gets no answer."""
        if not self._handed_over:
            self._exchange = None
            self.end_now()

    def end_if_idle(self) -> None:
        """Close the connection unless it has a request."""
        with self._sending:  # a request ends before its answer is sent
            is_idle = self._exchange is None and not self._arrived and not self._unsent
        if is_idle:
            self.end_now()

    def _close(self) -> None:
        with self._sending:
            self._gone = True
            self._unsent = ()
        self._parser = None
        self.server.forget(self)

    def hand_over(self) -> None:
        """Leave the connection to a WebSocket, which reads and writes it from now on."""
        self._handed_over = True
        self.server.leave_alone(self)

    def close_handed_over(self) -> None:
        self._handed_over = False
        self._exchange = None
        self._gone = True
        with self._lock:
            self._close()


class Malformed(ValueError):
    """A request that cannot be read, and the status of its answer."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status
