"""Many participants in one room: order and delay of their events, and the memory of each.

All participants are WebSockets in this process; they take turns to send. An event is late from the moment at which it
was due, so that a sender that waits does not hide a delay. Sources: RFC 6455, sections 4.1 and 5.2.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import resource
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

from benchmarks import processes
from tests.interaction.programs import running_hub

MAX_WAIT_SECONDS = 300.0
"""The longest time for each step."""

BATCH = 50
"""Participants that join at once."""

TICK_SECONDS = 0.005
HANDSHAKE_END = b"\r\n\r\n"
TEXT, PING, PONG = 0x81, 0x89, 0x8A
MASKED = 0x80


def frame_of(data: bytes, opcode: int = TEXT) -> bytes:
    """Return a frame of a client. The mask is zero: it changes nothing, and a client has to send one."""
    size = len(data)
    head = bytes((opcode, MASKED | size)) if size < 126 else bytes((opcode, MASKED | 126)) + size.to_bytes(2)
    return head + bytes(4) + data


class Participant(asyncio.Protocol):
    """One WebSocket. `count` events were received; `last` is the place of the newest one in the log."""

    def __init__(self, clients: RoomClients) -> None:
        self._clients = clients
        self._rest = b""
        self._is_open = False
        self.transport: asyncio.Transport | None = None
        self.count = self.last = 0
        self.is_in_order = True
        self.has_joined = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._clients.handshake)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        data = self._rest + data if self._rest else data
        position = 0
        if not self._is_open:
            if HANDSHAKE_END not in data:
                self._rest = data
                return
            position = data.index(HANDSHAKE_END) + len(HANDSHAKE_END)
            self._open(data)
        size = len(data)
        while size - position >= 2:
            length, start = data[position + 1], position + 2
            if length >= 126:
                wide = 2 if length == 126 else 8
                length = int.from_bytes(data[start : start + wide])
                start += wide
            if start + length > size:
                break
            self._receive_frame(data[position], data[start : start + length], now)
            position = start + length
        self._rest = data[position:]

    def _open(self, answer: bytes) -> None:
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"the hub refused a WebSocket: {answer[:300]!r}")
        self._is_open = True
        self.send({"type": "hello", "payload": {"proto": "ENSO-1", "caps": ["can.speak"]}})

    def _receive_frame(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == PING:
            assert self.transport is not None
            self.transport.write(frame_of(payload, PONG))
        elif opcode == TEXT:
            seq, number = self._clients.read(payload)
            if number >= 0:
                self.is_in_order = self.is_in_order and seq > self.last
                self.last = seq
                self.count += 1
                self._clients.record_delivery(number, now)
            elif not self.has_joined and b'"presence.join"' in payload:
                self.has_joined = True
        else:
            raise RuntimeError(f"the hub sent a frame with the first byte {opcode:#x}: {payload[:300]!r}")

    def send(self, message: object) -> None:
        """Send a message as one frame."""
        assert self.transport is not None
        self.transport.write(frame_of(orjson.dumps(message)))

    def connection_lost(self, problem: Exception | None) -> None:
        self._clients.lost += 1


class RoomClients:
    """The participants of one room, and what was sent and received. Delays are in seconds."""

    def __init__(self, hub: str, room: str) -> None:
        self._address = urlsplit(hub)
        self.handshake = (
            f"GET /rooms/{room}/ws HTTP/1.1\r\nHost: {self._address.netloc}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
        self.members: list[Participant] = []
        self.lost = self.received = 0
        self.due: list[float] = []
        self.delays = array("f")
        self._parsed_events: dict[bytes, tuple[int, int]] = {}

    def read(self, payload: bytes) -> tuple[int, int]:
        """Return place and number of an event, the number -1 for any other message. Each is parsed once."""
        found = self._parsed_events.get(payload)
        if found is None:
            frame = orjson.loads(payload)
            envelope = frame["payload"]
            number = envelope["payload"]["number"] if envelope["type"] == "chat.msg" else -1
            found = self._parsed_events[payload] = (frame.get("seq", 0), number)
        return found

    def record_delivery(self, number: int, now: float) -> None:
        """Record the delay of one event at one participant."""
        self.delays.append(now - self.due[number])
        self.received += 1

    async def join(self, count: int) -> None:
        """Let participants join, in batches."""
        loop = asyncio.get_running_loop()
        host, port = self._address.hostname or "", self._address.port or 80
        while len(self.members) < count:
            made = [
                loop.create_connection(lambda: Participant(self), host, port)
                for _ in range(min(BATCH, count - len(self.members)))
            ]
            self.members += [member for _, member in await asyncio.gather(*made)]
            await until(lambda: all(member.has_joined for member in self.members), "the participants join")

    async def send_events(self, events: int, rate: float) -> None:
        """Send events at a rate (events per second); the participants take turns."""
        begun = time.monotonic() + TICK_SECONDS
        self.due = [begun + number / rate for number in range(events)]
        sent = 0
        while sent < events:
            now = time.monotonic()
            while sent < events and self.due[sent] <= now:
                self.members[sent % len(self.members)].send({"type": "envelope", "payload": make_envelope(sent)})
                sent += 1
            await asyncio.sleep(TICK_SECONDS)


def make_envelope(number: int) -> dict[str, object]:
    """Return the envelope of an event, as the reference client writes it."""
    made = {"id": str(uuid4()), "ts": "2026-11-22T12:00:00.000Z", "room": "local", "from": "enso-client"}
    text = f"event {number} of a busy room, with as much text as a line of a conversation has on most days"
    return {**made, "kind": "event", "type": "chat.msg", "payload": {"number": number, "text": text}}


async def until(condition: Callable[[], bool], expected: str) -> None:
    """Wait for a condition. Raises RuntimeError after MAX_WAIT_SECONDS."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > MAX_WAIT_SECONDS:
            raise RuntimeError(f"expected within {MAX_WAIT_SECONDS:g} s: {expected}")
        await asyncio.sleep(0.01)


@dataclass(frozen=True)
class CrowdReport:
    """The result. `median`, `p99` and `longest` are delays in ms; `joined` and `whole` seconds; memory in KiB.

    `cpu` is the share of one processor that the hub took while events were sent.
    """

    participants: int
    events: int
    received: int
    wrong: int
    joined: float
    whole: float
    median: float
    p99: float
    longest: float
    memory_joined: float
    memory_after: float
    cpu: float


async def measure(participants: int, rate: int, seconds: int) -> CrowdReport:
    """Run a hub, let the participants join one room, and send events."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limits = ["--room-members", str(participants), "--connections", str(participants + 100)]
    with tempfile.TemporaryDirectory() as name, running_hub(Path(name) / "hub", options=limits) as hub:
        create_room(hub.url, "crowd")
        before = processes.memory_bytes(hub.pid)
        clients = RoomClients(hub.url, "crowd")
        begun = time.monotonic()
        await clients.join(participants)
        joined = time.monotonic() - begun
        await asyncio.sleep(2.0)
        memory = processes.memory_bytes(hub.pid)
        events, cpu, begun = rate * seconds, processes.cpu_seconds(hub.pid), time.monotonic()
        await clients.send_events(events, rate)
        cpu = (processes.cpu_seconds(hub.pid) - cpu) / (time.monotonic() - begun)
        await until(
            lambda: clients.received >= participants * events or clients.lost > 0,
            "every participant receives every event",
        )
        whole, after = time.monotonic() - begun, processes.memory_bytes(hub.pid)
        wrong = sum(not member.is_in_order or member.count != events for member in clients.members)
        for member in clients.members:
            if member.transport is not None:
                member.transport.abort()
    ranked = statistics.quantiles(clients.delays, n=100)
    delays = (ranked[49] * 1e3, ranked[98] * 1e3, max(clients.delays) * 1e3)
    kibs = ((memory - before) / 1024 / participants, (after - before) / 1024 / participants)
    return CrowdReport(participants, events, clients.received, wrong, joined, whole, *delays, *kibs, cpu)


def create_room(hub: str, room: str) -> None:
    """Create a room. Raises RuntimeError when the hub refuses."""
    connection = http.client.HTTPConnection(urlsplit(hub).netloc, timeout=MAX_WAIT_SECONDS)
    connection.request("PUT", f"/rooms/{room}", json.dumps({}), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    if status != 201:
        raise RuntimeError(f"the hub answered the creation of a room with {status}")


def describe(report: CrowdReport) -> str:
    """Return a report as sentences; the load of the machine belongs to it."""
    load = os.getloadavg()[0]
    return (
        f"{report.participants} participants, {report.events} events: {report.received} deliveries,"
        f" {report.wrong} participants missed one or had another order; all received after {report.whole:.1f} s\n"
        f"delay: median {report.median:.0f} ms, p99 {report.p99:.0f} ms, longest {report.longest:.0f} ms;"
        f" the hub took {report.cpu:.0%} of a processor; load average {load:.1f} on {os.cpu_count()} processors\n"
        f"memory of the hub: {report.memory_joined:.1f} KiB a participant after joining ({report.joined:.1f} s),"
        f" {report.memory_after:.1f} KiB after the events, the log in memory included"
    )
