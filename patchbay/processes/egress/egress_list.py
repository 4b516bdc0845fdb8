"""The hosts and ports that a confined program may reach: how its configuration writes them, and which requests match.

An entry is `HOST:PORT` or `HOST`, which means port 443. A host is a name, `*.` before a name, an IPv4 address in four
decimal numbers, or an IPv6 address in brackets. A wildcard stands for exactly one label, as in certificates (RFC 9525).
Names outside ASCII are written in either form (RFC 5891). Every other spelling of an address is an error, because
resolvers read `127.1`, `0177.0.0.1` and `2130706433` as addresses too.

`localhost`, `127.0.0.1` and `[::1]` are one host here: this machine.

Sources: RFC 952 and RFC 1123 (names of hosts), RFC 3986 section 3.2.2, RFC 6761 section 6.3 (localhost), WHATWG URL
("ends in a number").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from patchbay.errors import PatchbayError

DEFAULT_PORT = 443
"""The port of an entry without one."""

MAX_ENTRIES = 100
"""Entries of one list, at most: the sockets of a program are passed in one message of the kernel."""

MAX_NAMED_ENTRIES = 5
"""Entries that a sentence names."""

MAX_NAME_CHARACTERS = 253
LOCALHOST = "localhost"

PRIVATE_ENDINGS = (".internal", ".local", ".home.arpa")
"""Ends of names that only the resolver of a private network knows (RFC 6762, RFC 8375, and ICANN for `internal`)."""

EXPECTED = "expected HOST:PORT, such as api.example.com:443, *.example.com:443, 10.0.0.5:8080 or [2001:db8::1]:443"

_ENTRY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([^:]*))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)

Destination = tuple[str, int]
"""A host, as `parse_host` returns it, and a port."""


class EgressEntryError(PatchbayError):
    """An entry of a list of hosts, or a requested host, is not well-formed."""


@dataclass(frozen=True, slots=True)
class EgressList:
    """The destinations of a list; `wildcards` have the part of the name behind `*.`."""

    exact: frozenset[Destination]
    wildcards: frozenset[Destination] = frozenset()

    def allows(self, host: str, port: int) -> bool:
        """Whether a program may ask for this host (as `parse_host` returns it) at this port."""
        return (host, port) in self.exact or (host.partition(".")[2], port) in self.wildcards

    def direct(self) -> list[Destination]:
        """Return the destinations without wildcards in a fixed order."""
        return sorted(self.exact)


def parse_egress_list(entries: Sequence[str]) -> EgressList:
    """Return the list that a configuration describes. Raises EgressEntryError, whose data has the `index`."""
    exact: set[Destination] = set()
    wildcards: set[Destination] = set()
    if len(entries) > MAX_ENTRIES:
        raise EgressEntryError(f"expected at most {MAX_ENTRIES} entries, not {len(entries)}", {"index": MAX_ENTRIES})
    for index, entry in enumerate(entries):
        try:
            is_wildcard, destination = _parse_entry(entry)
        except EgressEntryError as problem:
            raise EgressEntryError(problem.message, {"index": index}) from problem
        (wildcards if is_wildcard else exact).add(destination)
    return EgressList(frozenset(exact), frozenset(wildcards))


def _parse_entry(entry: str) -> tuple[bool, Destination]:
    shown = repr(entry[:100])
    if "://" in entry or "/" in entry or "@" in entry:
        raise EgressEntryError(f"{EXPECTED}, without a scheme, a user or a path; not {shown}")
    found = _ENTRY.fullmatch(entry)
    if found is None:
        hint = "; an IPv6 address stands in brackets" if entry.count(":") > 1 else ""
        raise EgressEntryError(f"{EXPECTED}{hint}; not {shown}")
    host, port = found[1], DEFAULT_PORT if found[2] is None else parse_port(found[2])
    is_wildcard = host.startswith("*.")
    name = host[2:] if is_wildcard else host
    if "*" in name:
        raise EgressEntryError(
            f'expected * only as the whole first label of a name, such as *.example.com; not {shown}. "network": true'
            " allows every host"
        )
    parsed = parse_host(_to_ascii(name) if not name.isascii() else name)
    if is_wildcard and (is_address(parsed) or ("." not in parsed and parsed != LOCALHOST)):
        raise EgressEntryError(f"expected a name of two labels or more behind *., such as *.example.com; not {shown}")
    if is_address(parsed) and (ip_address(parsed).is_unspecified or ip_address(parsed).is_multicast):
        raise EgressEntryError(f"expected the address of one host; not {shown}. This machine is localhost")
    return is_wildcard, (parsed, port)


def parse_port(text: str) -> int:
    """Return a port. Raises EgressEntryError for anything but a number from 1 to 65535 in plain digits."""
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not 0 < int(text) < 65536:
        raise EgressEntryError(f"expected a port from 1 to 65535, not {text[:20]!r}")
    return int(text)


def parse_host(text: str) -> str:
    """Return a requested host in the one form in which hosts are compared.

    A name is in lower case without a final dot; an address is in its shortest form, IPv4 in IPv6 as IPv4. Raises
    EgressEntryError for a host that is not ASCII, and for an address in any other spelling.
    """
    if text.startswith("[") and text.endswith("]"):
        return _parse_ipv6(text[1:-1])
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return _simplify(IPv4Address(name))
        except ValueError:
            raise EgressEntryError(
                f"expected an IPv4 address in four decimal numbers, such as 10.0.0.5; not {text[:100]!r}"
            ) from None
    if len(name) > MAX_NAME_CHARACTERS or not all(_LABEL.fullmatch(label) for label in labels):
        raise EgressEntryError(f"expected the name or the address of a host, not {text[:100]!r}")
    return name


def _parse_ipv6(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError
        return _simplify(IPv6Address(text))
    except ValueError:
        raise EgressEntryError(
            f"expected an IPv6 address in brackets, such as [2001:db8::1]; not {text[:100]!r}"
        ) from None


def _simplify(address: IPv4Address | IPv6Address) -> str:
    plain = getattr(address, "ipv4_mapped", None) or address
    return LOCALHOST if str(plain) in ("127.0.0.1", "::1") else str(plain)


def _to_ascii(name: str) -> str:
    import idna

    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError as problem:
        raise EgressEntryError(f"{name[:100]!r} is not the name of a host: {problem}") from problem


def is_address(host: str) -> bool:
    """Whether a host is an address, without brackets."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_private_name(host: str) -> bool:
    """Whether a name can only be that of a private network: it has one label, or one of PRIVATE_ENDINGS."""
    return not is_address(host) and not is_this_machine(host) and ("." not in host or host.endswith(PRIVATE_ENDINGS))


def is_this_machine(host: str) -> bool:
    """Whether a host is `localhost` or a name below it."""
    return host == LOCALHOST or host.endswith(f".{LOCALHOST}")


def write_destination(host: str, port: int) -> str:
    """Return the entry for a destination: `api.example.com:443`, `[2001:db8::1]:443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def describe_egress(entries: Sequence[str]) -> str:
    """Return what a program with this list may reach, as the end of a sentence."""
    rest = f" and {len(entries) - MAX_NAMED_ENTRIES} more" if len(entries) > MAX_NAMED_ENTRIES else ""
    return f"{', '.join(entries[:MAX_NAMED_ENTRIES])}{rest}" if entries else "no host"


def list_addresses(destinations: Sequence[Destination]) -> Iterator[str]:
    """Yield the IPv4 addresses among destinations, each once, in their order."""
    found = (host for host, _ in destinations if is_address(host) and ":" not in host)
    yield from dict.fromkeys(found)
