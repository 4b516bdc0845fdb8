"""Many callers of a hub in one thread, who know exactly what became of each request.

What HTTP says of a connection that ends: an answer of which a part came is cut, and that must not happen. A server may
close an idle connection at any moment (RFC 9112, 9.5), also while a request is on its way to it: then no byte comes
back. Such a request is `UNHEARD`; whether it was carried out is for the tool to tell, and tests ask it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.hubs import BOTH, modern_request, sse_messages
from tests.waiting import BOUND, until_async

ANSWERED, REFUSED, UNHEARD, CUT = "answered", "refused", "unheard", "cut"
"""What can become of a request: a whole answer, no connection, a connection that closed without a byte, a part."""

SESSION = "2025-11-25"

KEPT, FRESH = 12, 4
"""Callers of a load that keep their connection from one call to the next, and callers with a new one for each."""

CALLERS = KEPT + FRESH


@dataclass(slots=True)
class Fate:
    """What became of one request; `took` is in seconds from sending it."""

    kind: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    took: float = 0.0

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages of the answer, the last one last."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return sse_messages(self.body)
        return [json.loads(self.body)]

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        return "".join(item["text"] for item in self.messages[-1]["result"]["content"])

    @property
    def turned_away(self) -> bool:
        """Whether the hub answered that it is busy, with the time of the next try."""
        return self.kind == ANSWERED and self.status == 503 and "retry-after" in self.headers


class Line:
    """One connection, opened when it is needed and again after it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes, begun: Callable[[bytes], None] | None = None) -> Fate:
        """Send one request and read the whole answer. `begun` gets the bytes of the body that arrived so far."""
        at = time.monotonic()
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        except OSError:
            return Fate(REFUSED, took=time.monotonic() - at)
        assert self._reader is not None
        fate = Fate(UNHEARD)
        try:
            self._writer.write(request)
            await self._writer.drain()
            await asyncio.wait_for(_read(self._reader, fate, begun), BOUND)
        except (OSError, EOFError):
            self.close()
        if fate.kind == ANSWERED and fate.headers.get("connection", "").lower() == "close":
            self.close()
        fate.took = time.monotonic() - at
        return fate

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


async def _read(reader: asyncio.StreamReader, fate: Fate, begun: Callable[[bytes], None] | None) -> None:
    """Fill in what comes; raises OSError or EOFError where it ends too early."""
    first = await reader.readexactly(1)
    fate.kind = CUT
    status, *lines = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fate.status = int(status.split()[1])
    fate.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if "content-length" in fate.headers:
        fate.body = await reader.readexactly(int(fate.headers["content-length"]))
    elif fate.status not in (202, 204):
        while size := int(await reader.readuntil(b"\r\n"), 16):
            fate.body += (await reader.readexactly(size + 2))[:-2]
            if begun is not None:
                begun(fate.body)
        await reader.readexactly(2)
    fate.kind = ANSWERED


def posted(server: str, body: Any, headers: Mapping[str, str]) -> bytes:
    """A POST of one message."""
    data = json.dumps(body).encode()
    known = {"Host": "localhost", "Content-Type": "application/json", "Accept": BOTH, "Content-Length": str(len(data))}
    return _head("POST", server, known | dict(headers)) + data


def fetched(server: str, headers: Mapping[str, str]) -> bytes:
    """A GET of an event stream."""
    return _head("GET", server, {"Host": "localhost", "Accept": "text/event-stream"} | dict(headers))


def _head(verb: str, server: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"{verb} /mcp/{server} HTTP/1.1", *lines, "", ""]).encode()


def call(server: str, tool: str, arguments: Mapping[str, Any], token: str | None = None, modern: bool = True) -> bytes:
    """A request that calls a tool; with a progress token it is answered by a stream."""
    params = {"name": tool, "arguments": dict(arguments)}
    meta = {} if token is None else {"progressToken": token}
    if modern:
        return posted(server, *modern_request("tools/call", params, meta=meta))
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params | ({"_meta": meta} if meta else {})}
    return posted(server, message, {"MCP-Protocol-Version": SESSION})


async def session(port: int, server: str) -> dict[str, str]:
    """The headers of a new session of 2025-11-25."""
    params = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "callers", "version": "1"}}
    line = Line(port)
    fate = await line.ask(posted(server, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {}))
    line.close()
    assert fate.kind == ANSWERED, fate
    return {"Mcp-Session-Id": fate.headers["mcp-session-id"], "MCP-Protocol-Version": SESSION}


class Load:
    """Callers who call again and again, `rate` times a second together, until `stop` is set.

    A part of them keeps its connection from one call to the next, the others have a new one for each. `asked` makes
    the request of a number. What became of each request stands in `fates`, under its number.
    """

    def __init__(self, port: int, rate: float, asked: Callable[[int], bytes]) -> None:
        self.fates: dict[int, Fate] = {}
        self.moments: dict[int, float] = {}
        self._port = port
        self._asked = asked
        self._pause = CALLERS / rate
        self._kinds = [True] * KEPT + [False] * FRESH
        self._over = asyncio.Event()
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start calling."""
        self._tasks = [asyncio.create_task(self._go_on_calling(keeps)) for keeps in self._kinds]

    async def stop(self) -> None:
        """Call no more, and wait for the answers that are still to come. Raises what a caller raised."""
        self._over.set()
        await asyncio.gather(*self._tasks)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so, while the calls go on."""
        await until_async(condition, what)

    def kinds(self, kind: str) -> set[int]:
        """The numbers of the requests of which this became."""
        return {number for number, fate in self.fates.items() if fate.kind == kind}

    async def _go_on_calling(self, keeps: bool) -> None:
        line, due = Line(self._port), time.monotonic()
        while not self._over.is_set():
            self._number += 1
            number = self._number
            self.moments[number] = time.monotonic()
            self.fates[number] = await line.ask(self._asked(number))
            if not keeps:
                line.close()
            # Who is late does not make up for it: that would be another load than was asked for.
            due = max(due + self._pause, time.monotonic())
            await self._pause_until(due)
        line.close()

    async def _pause_until(self, moment: float) -> None:
        left = moment - time.monotonic()
        try:
            await asyncio.wait_for(self._over.wait(), max(left, 0.001))
        except TimeoutError:
            return


async def together(waiting: Awaitable[Any]) -> Any:
    """Wait for something, at most BOUND seconds."""
    return await asyncio.wait_for(waiting, BOUND)
