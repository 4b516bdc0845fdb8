"""What a confined program finds in its network namespace in place of a network: sockets that lead to the hub.

The first socket is the proxy. Each further one stands for one destination of the list, for programs that use no proxy:
the name of a host leads there by the program's own /etc/hosts, an IPv4 address by an address of its own loopback
device, and `localhost` by the same port. Wildcards and IPv6 addresses are reached through the proxy only. The start of
the program makes the sockets and passes them to the hub (`confined_start.py`); the program has no descriptor of them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from patchbay.processes.egress.egress_list import (
    LOCALHOST,
    Destination,
    EgressEntryError,
    EgressList,
    is_address,
    list_addresses,
    parse_host,
)

LOOPBACK, LOOPBACK_IPV6 = "127.0.0.1", "::1"
FIRST_PROXY_PORT = 3128
"""The port of the proxy, or the next one that the list does not name for `localhost`."""

NAMES_NETWORK = "7.86"
"""Where the names of the list lead inside the namespace: addresses that programs take for public ones.

Programs that fetch what a caller names resolve it first, and refuse loopback, private and reserved addresses. These
belong to a network that the internet does not use, and no packet for them leaves the namespace.
"""

UNPROXIED = "localhost,127.0.0.1,::1"
"""The value of NO_PROXY: the loopback device of the program has its own services, and those of the list."""


@dataclass(frozen=True, slots=True)
class EgressPlan:
    """The `listeners` are addresses and ports inside the namespace, `targets` where each leads: None is the proxy.

    `addresses` are IPv4 addresses that the loopback device gets, `hosts` is the content of /etc/hosts.
    """

    listeners: tuple[tuple[str, int], ...]
    targets: tuple[Destination | None, ...]
    addresses: tuple[str, ...]
    hosts: str
    environment: Mapping[str, str]


def plan_egress(egress: EgressList) -> EgressPlan:
    """Return what the namespace of a program with this list has."""
    direct = egress.direct()
    names = [host for host, _ in direct if host != LOCALHOST and not is_address(host)]
    listed = tuple(list_addresses(direct))
    places = dict(zip(dict.fromkeys(names), _free_addresses(listed), strict=False))
    port = next(number for number in range(FIRST_PROXY_PORT, 65536) if (LOCALHOST, number) not in egress.exact)
    found: list[tuple[str, int, Destination | None]] = [(LOOPBACK, port, None)]
    for host, number in direct:
        found += ((address, number, (host, number)) for address in _addresses_of(host, places))
    own = [one for one in (*listed, *places.values()) if not ip_address(one).is_loopback]
    return EgressPlan(
        tuple((address, number) for address, number, _ in found),
        tuple(target for _, _, target in found),
        tuple(own),
        _write_hosts(places),
        _environment(f"http://{LOOPBACK}:{port}"),
    )


def _free_addresses(listed: Collection[str]) -> Iterator[str]:
    """Yield addresses for names, without those that the list itself names."""
    every = (f"{NAMES_NETWORK}.{number // 250}.{number % 250 + 1}" for number in range(250 * 250))
    return (one for one in every if one not in listed)


def _addresses_of(host: str, places: Mapping[str, str]) -> Iterator[str]:
    """Yield the addresses inside the namespace that stand for a host."""
    if host == LOCALHOST:
        yield from (LOOPBACK, LOOPBACK_IPV6)
    elif host in places:
        yield places[host]
    elif ":" not in host:
        yield host


def _write_hosts(places: Mapping[str, str]) -> str:
    lines = [f"{LOOPBACK} {LOCALHOST}", f"{LOOPBACK_IPV6} {LOCALHOST} ip6-localhost ip6-loopback"]
    own = _own_name()
    lines += [f"{LOOPBACK} {own}"] if own and own not in places else []
    return "\n".join([*lines, *(f"{address} {name}" for name, address in places.items()), ""])


def _own_name() -> str:
    """Return the name of this machine; empty for one that is no name of a host."""
    try:
        return parse_host(os.uname().nodename)
    except EgressEntryError:
        return ""


def _environment(proxy: str) -> dict[str, str]:
    """Return the variables that lead programs to the proxy.

    ALL_PROXY has its HTTP address: httpx and requests fail at a SOCKS proxy for which a further package is missing. The
    same port speaks SOCKS5.
    """
    found = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": UNPROXIED}
    found |= {name.upper(): value for name, value in found.items()}
    return found | {
        "NODE_USE_ENV_PROXY": "1",
        "npm_config_proxy": proxy,
        "npm_config_https_proxy": proxy,
        "npm_config_noproxy": UNPROXIED,
    }
