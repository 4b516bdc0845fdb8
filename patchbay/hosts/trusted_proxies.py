"""The address of a client behind proxies that the operator names.

Each proxy adds the address of its own client at the end of `X-Forwarded-For`. So the list is read from its end: the
first address that is not a named proxy is the client. What stands before it is written by the client itself.
Source: https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/X-Forwarded-For (trusted proxy list).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from patchbay.errors import ConfigError

MAX_HOPS = 20
"""Proxies in a row, at most."""

MAX_HEADER_CHARACTERS = 1024
"""Characters at the end of the header that are read: more than MAX_HOPS addresses need."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` counts: addresses and networks. Raises ConfigError for another entry."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._networks = tuple(_parse_network(entry) for entry in entries)
        self._find = lru_cache(maxsize=4096)(self._find_client)

    def find_client(self, peer: str, forwarded_for: str | None) -> str:
        """Return the address of the client of a request; `peer` is the other end of its connection.

        It is `peer` for a connection that is not of a named proxy, and where the header does not name an address.
        """
        return self._find(peer, _cut(forwarded_for)) if self._networks and forwarded_for else peer

    def _find_client(self, peer: str, forwarded_for: str) -> str:
        client = peer
        for hop in reversed(forwarded_for.split(",")[-MAX_HOPS:]):
            if not self._is_trusted(client):
                return client
            found = _parse_hop(hop)
            if found is None:
                return peer
            client = found
        return client

    def _is_trusted(self, address: str) -> bool:
        try:
            found = _plain(ipaddress.ip_address(address))
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _parse_network(entry: str) -> Network:
    try:
        return ipaddress.ip_network(entry)
    except ValueError as problem:
        expected = "expected addresses and networks, such as 127.0.0.1,10.0.0.0/8"
        raise ConfigError("trusted_proxies", "", f"{expected}; got {entry[:80]!r}: {problem}") from problem


def _cut(forwarded_for: str) -> str:
    """Return what decides of a header, so that the memory of answers keeps little of what a client wrote."""
    if len(forwarded_for) <= MAX_HEADER_CHARACTERS:
        return forwarded_for
    # The first entry of the end may be a part of an address, which is another address.
    return forwarded_for[-MAX_HEADER_CHARACTERS:].partition(",")[2]


def _parse_hop(text: str) -> str | None:
    """Return the address of an entry, which may have a port; None for another text."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(_plain(ipaddress.ip_address(text)))
    except ValueError:
        return None


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address of IPv4 that is written as one of IPv6 as what it is."""
    return getattr(address, "ipv4_mapped", None) or address
