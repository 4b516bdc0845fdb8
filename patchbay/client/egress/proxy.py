"""The proxy of one program: its listening sockets, its connections, and their limits.

A connection to the first socket begins with a request of SOCKS5 or HTTP, by its first byte; one to another socket leads
to the destination of the socket. A connection beyond the limits of the program, or of all programs, is closed at once.
All of them end with `serve`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from patchbay.client.egress.destinations import Destinations, EgressFailed, EgressRefused
from patchbay.client.egress.http_proxy import serve_http
from patchbay.client.egress.limits import BUFFER_BYTES, MAX_CONNECTIONS_OF_ALL, EgressLimits
from patchbay.client.egress.relaying import Ends, closed_at_end, opened, relay
from patchbay.client.egress.socks_proxy import VERSION, serve_socks
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.processes.egress.egress_list import Destination, EgressList

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""Seconds after a new record in which further ones are stored with it."""

MAX_LISTENERS = 253
"""Descriptors in one message, at most (SCM_MAX_FD of Linux)."""


LIMITS = EgressLimits()

_ALL: set[asyncio.Task[None]] = set()
"""The connections of all programs; the one event loop of them changes it."""


class EgressProxy:
    """Serves what a program asks for. `targets` are those of the sockets that the start of the program makes."""

    def __init__(
        self,
        confinement: ProgramConfinement,
        egress: EgressList,
        targets: Sequence[Destination | None],
        limits: EgressLimits = LIMITS,
    ) -> None:
        self._confinement, self._targets, self._limits = confinement, targets, limits
        self._has_records = asyncio.Event()
        self._destinations = Destinations(confinement, egress, self._has_records.set)
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, source: socket.socket) -> None:
        """Receive the listening sockets from `source` and serve them until this is cancelled."""
        servers: list[asyncio.Server] = []
        try:
            with source:
                found = await _receive_listeners(source)
            for number, listener in found.items():
                take = partial(self._begin, self._targets[number])
                servers.append(await asyncio.start_server(take, sock=listener, limit=BUFFER_BYTES))
            while await self._has_records.wait():
                self._has_records.clear()
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush()
        finally:
            for server in servers:
                server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await self._flush()

    async def _flush(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._confinement.records.flush)
        except Exception:
            log.warning("the hosts that %s asked for are not stored yet", self._confinement.name, exc_info=True)

    def _begin(self, target: Destination | None, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a connection in a task of its own; one beyond the limit is closed."""
        if len(self._connections) >= self._limits.connections or len(_ALL) >= MAX_CONNECTIONS_OF_ALL:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._take((reader, writer), target))
        for group in (self._connections, _ALL):
            group.add(task)
            task.add_done_callback(group.discard)

    async def _take(self, program: Ends, target: Destination | None) -> None:
        writer = program[1]
        writer.transport.set_write_buffer_limits(BUFFER_BYTES)
        with suppress(OSError, EOFError, TimeoutError):
            async with closed_at_end(writer):
                await self._serve(program, target)

    async def _serve(self, program: Ends, target: Destination | None) -> None:
        if target is not None:
            await self._lead(program, target)
            return
        async with asyncio.timeout(self._limits.request):
            first = await program[0].read(1)
        if first == bytes([VERSION]):
            await serve_socks(program, self._destinations, self._limits)
        elif first:
            await serve_http(program, self._destinations, first, self._limits)

    async def _lead(self, program: Ends, target: Destination) -> None:
        """Connect a program that uses no proxy to its destination."""
        with suppress(EgressRefused, EgressFailed):
            async with opened(await self._destinations.connect(*target)) as host_streams:
                await relay(program, host_streams, self._limits)


async def _receive_listeners(source: socket.socket) -> dict[int, socket.socket]:
    """Return the listening sockets by their places in the plan; an empty map when the start of the program failed."""
    source.setblocking(False)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(source, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)
    numbers, descriptors, _, _ = socket.recv_fds(source, 4096, MAX_LISTENERS, socket.MSG_CMSG_CLOEXEC)
    listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for listener in listeners:
        listener.setblocking(False)
    return dict(zip(map(int, numbers.split()), listeners, strict=True))
