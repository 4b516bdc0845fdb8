"""Whether a host has only public addresses, and the address to connect to, so that the checked address is the one used.

A URL that a server names (an authorization server, a metadata document, another server of its API) may lead a client to
public addresses only: never to loopback, private, link-local or multicast addresses, in any spelling, also as IPv4
inside IPv6. Only origins that a person or an operator named may be at other addresses.

Sources: RFC 6890 and RFC 8190 (special addresses); RFC 2765, RFC 6052, RFC 8215 (IPv4 in IPv6).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

from patchbay.client.errors import Unreachable

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6_NETWORKS = (ipaddress.IPv6Network("2000::/3"), _NAT64)
"""The only public IPv6 addresses: those assigned to networks, and those that a network translates to IPv4."""

_IPV4_IN_IPV6_NETWORKS = tuple(
    ipaddress.IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "64:ff9b::/96")
)
"""Networks whose last 32 bits are an IPv4 address: compatible, mapped, translated, and both of NAT64."""

_ISATAP_PREFIXES = (0x00005EFE, 0x02005EFE)
_RESERVED_NETWORKS: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Special networks that older versions of the standard library call public: 6to4 relays, documentation."""


def is_public(address: IpAddress) -> bool:
    """Whether an address, and every IPv4 address inside it, is public."""
    return all(_is_public_itself(one) for one in _list_embedded_addresses(address))


def _is_public_itself(address: IpAddress) -> bool:
    if (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or any(address in net for net in _RESERVED_NETWORKS)
    ):
        return False
    return address.version == 4 or any(address in network for network in _PUBLIC_IPV6_NETWORKS)


def _list_embedded_addresses(address: IpAddress) -> Iterator[IpAddress]:
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _IPV4_IN_IPV6_NETWORKS) or number >> 32 & 0xFFFFFFFF in _ISATAP_PREFIXES:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)


def resolve_host(host: str, port: int) -> list[IpAddress]:
    """Look up every address of a host. Raises Unreachable when it has no address."""
    try:
        rows = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise Unreachable(f"{host} has no address: {problem}") from problem
    return [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]


def resolve_public_addresses(host: str, port: int, who: str, remedy: str = "") -> list[str]:
    """Look up a host that has to be public, and return its addresses.

    Raises Unreachable when one of its addresses is not public. The message names `who` led there and ends with
    `remedy`.
    """
    found = resolve_host(host, port)
    if not all(is_public(address) for address in found):
        raise Unreachable(f"{who} leads to {host}, which is not a public address{remedy and '; '}{remedy}")
    return [str(address) for address in found]


def resolve_public_address(host: str, port: int, who: str, remedy: str = "") -> str:
    """Return the address to connect to, of a host that has to be public; see resolve_public_addresses."""
    return resolve_public_addresses(host, port, who, remedy)[0]
