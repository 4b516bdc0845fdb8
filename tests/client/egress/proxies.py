"""The proxy of a program without its program: on sockets of this machine, with a host that it may reach."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.egress.limits import EgressLimits
from patchbay.client.egress.proxy import LIMITS, EgressProxy
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.processes.egress.egress_list import Destination, parse_egress_list
from patchbay.processes.egress.egress_records import EgressRecords, HostRecord
from tests.waiting import BOUND


@dataclass
class Proxy:
    """A running proxy: its port, those of its further sockets, and what it recorded."""

    port: int
    further: Sequence[int]
    records: EgressRecords
    kept: list[HostRecord]

    def open(self, place: int | None = None) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.further[place] if place is not None else self.port), BOUND)

    def ask(self, text: str | bytes) -> bytes:
        """Send bytes, end the own direction, and return all that comes."""
        with self.open() as connection:
            connection.sendall(text.encode("latin-1") if isinstance(text, str) else text)
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def refused(self) -> list[tuple[str, int, str]]:
        return [(one.host, one.port, one.reason) for one in self.records.refused_since(0)]


def read_all(connection: socket.socket) -> bytes:
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        return found
    return found


def make_confinement(entries: Sequence[str]) -> ProgramConfinement:
    return ProgramConfinement("notes", ProgramPlaces(Path("/nowhere")), ProgramPermissions(network=tuple(entries)), {})


@contextmanager
def run_proxy(
    entries: Sequence[str], targets: Sequence[Destination] = (), limits: EgressLimits = LIMITS
) -> Iterator[Proxy]:
    """Run the proxy of a program with this list; `targets` are those of further sockets."""
    kept: list[HostRecord] = []
    records = EgressRecords(keep=kept.extend)
    confinement = replace(make_confinement(entries), records=records)
    loop = EventLoopThread("tests-egress")
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in (None, *targets)]
    ports = [one.getsockname()[1] for one in listeners]
    ours, theirs = socket.socketpair()
    running = loop.start(EgressProxy(confinement, parse_egress_list(entries), (None, *targets), limits).serve(ours))
    try:
        numbers = " ".join(str(number) for number in range(len(listeners))).encode()
        socket.send_fds(theirs, [numbers], [one.fileno() for one in listeners])
        for one in (theirs, *listeners):
            one.close()
        yield Proxy(ports[0], ports[1:], records, kept)
    finally:
        running.cancel()
        loop.close()


class Echo:
    """A host that keeps what it gets and answers each connection with fixed bytes; without them it echoes."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.keep_open = self.is_silent = False
        """Whether it ends no connection itself, and whether it answers nothing."""
        self.requests: list[bytes] = []
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        place = len(self.requests)
        self.requests.append(b"")
        with connection:
            while True:
                try:
                    piece = connection.recv(65536)
                except OSError:
                    return
                if not piece:
                    if self.keep_open:
                        self._closing.wait(BOUND)
                    return
                self.requests[place] += piece
                with suppress(OSError):
                    if self.is_silent:
                        continue
                    if not self.answer:
                        connection.sendall(piece)
                    elif b"\r\n\r\n" in self.requests[place]:
                        connection.sendall(self.answer)

    def close(self) -> None:
        self._closing.set()
        with suppress(OSError):  # it was closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
