"""Whether a host is somewhere public, and the address to connect to: looked up once, so that it stays the one checked.

A document or a redirect of a public server may not lead a client to loopback, private, link-local or multicast
addresses, in whichever spelling, IPv4 inside IPv6 included. Sources: THREATS 1.7 (SSRF, rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

from patchbay.client.failures import Unreachable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public(address: Address) -> bool:
    """Whether an address, and every IPv4 address inside it, is one of the public internet."""
    return all(one.is_global and not one.is_multicast for one in _inside(address))


def _inside(address: Address) -> Iterator[Address]:
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in (*_NAT64, _COMPATIBLE)) or number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)


def addresses_of(host: str, port: int) -> list[Address]:
    """Every address of a host. Raises Unreachable when it has none."""
    try:
        rows = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise Unreachable(f"{host} has no address: {problem}") from problem
    return [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]


def any_private(host: str, port: int) -> bool:
    """Whether a host is, or may be, no public one."""
    return not all(is_public(address) for address in addresses_of(host, port))


def public_address(host: str, port: int, who: str) -> str:
    """The address of a public host to connect to. Raises Unreachable, naming `who` led there, when any is not."""
    found = addresses_of(host, port)
    if not all(is_public(address) for address in found):
        raise Unreachable(f"{who} leads to {host}, which is not a public address")
    return str(found[0])
