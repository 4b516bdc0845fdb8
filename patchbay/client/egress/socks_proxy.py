"""The requests of SOCKS5 (RFC 1928): CONNECT to a name or an address, without authentication."""

from __future__ import annotations

import asyncio
import errno
import socket
from asyncio import IncompleteReadError

from patchbay.client.egress.destinations import Destinations, EgressFailed, EgressRefused
from patchbay.client.egress.limits import EgressLimits
from patchbay.client.egress.relaying import Ends, opened, relay

VERSION, NO_AUTHENTICATION, NO_METHOD, CONNECT = 5, 0, 0xFF, 1
IPV4, NAME, IPV6 = 1, 3, 4
DONE, NOT_ALLOWED, HOST_UNREACHABLE, REFUSED, UNKNOWN_COMMAND, UNKNOWN_ADDRESS = 0, 2, 4, 5, 7, 8


class _Malformed(Exception):
    """A request is not one of SOCKS5; `reply` is the code of the answer, None for none."""

    def __init__(self, reply: int | None = None) -> None:
        super().__init__(reply)
        self.reply = reply


async def serve_socks(program: Ends, destinations: Destinations, limits: EgressLimits) -> None:
    """Serve a connection whose first byte, the version, is read."""
    writer = program[1]
    try:
        async with asyncio.timeout(limits.request):
            host, port = await _read_request(program)
        connection = await destinations.connect(host, port)
    except (_Malformed, EgressRefused, EgressFailed, IncompleteReadError, TimeoutError) as problem:
        reply = _reply_of(problem)
        if reply is not None:
            writer.write(_write_reply(reply))
            await writer.drain()
        return
    async with opened(connection) as host_streams:
        writer.write(_write_reply(DONE))
        await relay(program, host_streams, limits)


async def _read_request(program: Ends) -> tuple[str, int]:
    reader, writer = program
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    if NO_AUTHENTICATION not in methods:
        writer.write(bytes([VERSION, NO_METHOD]))
        raise _Malformed
    writer.write(bytes([VERSION, NO_AUTHENTICATION]))
    version, command, _, kind = await reader.readexactly(4)
    if version != VERSION:
        raise _Malformed
    if kind == IPV4:
        host = socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
    elif kind == IPV6:
        host = f"[{socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))}]"
    elif kind == NAME:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("latin-1")
    else:
        raise _Malformed(UNKNOWN_ADDRESS)
    port = int.from_bytes(await reader.readexactly(2))
    if command != CONNECT:
        raise _Malformed(UNKNOWN_COMMAND)
    return host, port


def _reply_of(problem: Exception) -> int | None:
    if isinstance(problem, _Malformed):
        return problem.reply
    if isinstance(problem, EgressRefused):
        return NOT_ALLOWED
    if isinstance(problem, EgressFailed):
        return REFUSED if problem.error == errno.ECONNREFUSED else HOST_UNREACHABLE
    return None


def _write_reply(code: int) -> bytes:
    return bytes([VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0])
