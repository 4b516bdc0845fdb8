"""Whether a program may reach a host at a port, at which address, and the connection there.

The list names hosts. The addresses of a name are checked too, so that none leads inside: each must be public, or be
listed itself at this port. A name of a private network (`is_private_name`) may have addresses of one, but never those
of this machine, of a link, or of the metadata of a cloud. `localhost` is always this machine and is not looked up. The
checked address is the one that is connected.

Sources: RFC 6761 section 6.3 (localhost), RFC 1918 and RFC 4193 (private addresses), RFC 8305 (several addresses).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import IpAddress, is_public, resolve_host
from patchbay.processes.confinement.program_denials import explain_refused_host
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.processes.egress.egress_list import (
    EgressEntryError,
    EgressList,
    is_private_name,
    is_this_machine,
    parse_host,
    write_destination,
)
from patchbay.processes.egress.egress_records import FAILED, NOT_LISTED, PRIVATE, HostRecord

CONNECT_SECONDS = 20.0
"""Seconds in which a host must be found and answer, all its addresses together."""

MAX_REASON_CHARACTERS = 200
"""Characters of the reason of a failure that are kept."""

RESOLVING_THREADS, RESOLVED_AT_ONCE = 8, 2
"""Names that are looked up at a time: of all programs, and of one."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")

METADATA_ADDRESS = ipaddress.ip_address("fd00:ec2::254")
"""Where a cloud gives credentials to a machine, among the private addresses; those of other clouds are of a link."""

PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)


class EgressRefused(Exception):
    """A program may not reach a host. The message says why and what allows it."""


class EgressFailed(Exception):
    """An allowed host cannot be reached; `error` is that of the system, 0 where it has no address."""

    def __init__(self, message: str, error: int = 0) -> None:
        super().__init__(message)
        self.error = error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(RESOLVING_THREADS, "egress names")


class Destinations:
    """The hosts that one program may reach. `on_record` is called after each record of what it asked for."""

    def __init__(self, confinement: ProgramConfinement, egress: EgressList, on_record: Callable[[], None]) -> None:
        self._confinement, self._egress, self._on_record = confinement, egress, on_record
        self._looking_up = asyncio.Semaphore(RESOLVED_AT_ONCE)

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a connection to a host as a program wrote it. Raises EgressRefused and EgressFailed."""
        try:
            name = parse_host(host)
        except EgressEntryError as problem:
            raise self._refuse(host, port, problem.message) from None
        if not self._egress.allows(name, port):
            raise self._refuse(name, port, NOT_LISTED)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                addresses = await self._find_addresses(name, port)
                found = await _connect_first(addresses, port)
        except TimeoutError:
            raise self._fail(name, port, f"nothing came within {CONNECT_SECONDS:g} s") from None
        except Unreachable as problem:
            raise self._fail(name, port, problem.message) from None
        except OSError as problem:
            why = os.strerror(problem.errno) if problem.errno else str(problem)
            raise self._fail(name, port, why, problem.errno or 0) from None
        self._record(name, port)
        return found

    async def _find_addresses(self, name: str, port: int) -> Sequence[IpAddress]:
        if is_this_machine(name):
            return [ipaddress.ip_address(one) for one in LOOPBACK_ADDRESSES]
        async with self._looking_up:
            found = await asyncio.get_running_loop().run_in_executor(_threads(), resolve_host, name, port)
        for address in found:
            if not self._is_allowed(name, address, port):
                raise self._refuse(name, port, f"{PRIVATE} {parse_host(_write_host(address))}")
        return list(dict.fromkeys(found))

    def _is_allowed(self, name: str, address: IpAddress, port: int) -> bool:
        """Whether a name may lead to an address."""
        if is_public(address) or self._egress.allows(parse_host(_write_host(address)), port):
            return True
        is_inside = any(address in network for network in PRIVATE_NETWORKS) and address != METADATA_ADDRESS
        return is_private_name(name) and is_inside

    def _record(self, host: str, port: int, reason: str = "") -> HostRecord:
        """Record that a host was reached, or refused for a reason; return the record."""
        record = self._confinement.records.note(host, port, reason)
        self._on_record()
        return record

    def _fail(self, host: str, port: int, why: str, error: int = 0) -> EgressFailed:
        """Record a failure, and return it."""
        self._record(host, port, f"{FAILED}{why[:MAX_REASON_CHARACTERS]}")
        return EgressFailed(f"{write_destination(host, port)} gave no answer: {why}", error)

    def _refuse(self, host: str, port: int, reason: str) -> EgressRefused:
        """Record a refusal, and return it."""
        record = self._record(host, port, reason)
        return EgressRefused(explain_refused_host(self._confinement, record))


def _write_host(address: IpAddress) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


async def _connect_first(addresses: Sequence[IpAddress], port: int) -> socket.socket:
    """Return a connection to the first address that answers. Raises OSError: that of the last address."""
    problem = OSError("there is no address")
    for position, address in enumerate(addresses):
        left = len(addresses) - position
        one = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_SECONDS / (left + 1)):
                await asyncio.get_running_loop().sock_connect(one, (str(address), port))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return one
        except OSError as failure:  # TimeoutError is one
            one.close()
            problem = failure
        except BaseException:
            one.close()
            raise
    raise problem
