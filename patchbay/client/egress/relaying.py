"""Bytes between a program and a host, in both directions, until both have ended or nothing comes any more.

Each direction holds at most BUFFER_BYTES and then waits for the slower side.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from patchbay.client.egress.limits import BUFFER_BYTES, EgressLimits

CLOSE_SECONDS = 10.0
"""Seconds in which the last bytes of a connection must be read."""

Ends = tuple[StreamReader, StreamWriter]


async def relay(program: Ends, host: Ends, limits: EgressLimits) -> None:
    """Pass bytes between two connections. Returns when both directions have ended, or one has failed or is idle."""
    ended: list[StreamReader] = []
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(limits.idle) as deadline:
            directions = [
                asyncio.create_task(_pass_on(reader, writer, deadline, ended, limits))
                for (reader, _), (_, writer) in ((program, host), (host, program))
            ]
            try:
                await asyncio.gather(*directions)
            finally:
                for each in directions:
                    each.cancel()
                await asyncio.gather(*directions, return_exceptions=True)


async def _pass_on(
    reader: StreamReader,
    writer: StreamWriter,
    deadline: asyncio.Timeout,
    ended: list[StreamReader],
    limits: EgressLimits,
) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(BUFFER_BYTES):
        writer.write(data)
        await writer.drain()
        deadline.reschedule(loop.time() + (limits.half_closed if ended else limits.idle))
    ended.append(reader)
    deadline.reschedule(loop.time() + limits.half_closed)
    with suppress(OSError):
        writer.write_eof()


@asynccontextmanager
async def opened(connection: socket.socket) -> AsyncIterator[Ends]:
    """Give the streams of a connected socket, with bounded buffers; close it when the block is left."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=BUFFER_BYTES)
    writer.transport.set_write_buffer_limits(BUFFER_BYTES)
    async with closed_at_end(writer):
        yield reader, writer


@asynccontextmanager
async def closed_at_end(writer: StreamWriter) -> AsyncIterator[None]:
    """Close a connection when the block is left: at once after an error, else when its last bytes are sent.

    The other side has CLOSE_SECONDS to read them.
    """
    try:
        yield
    except BaseException:
        writer.transport.abort()
        raise
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
