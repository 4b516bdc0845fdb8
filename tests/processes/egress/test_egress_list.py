"""How a configuration writes hosts, and which requests match."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.processes.egress.egress_list import (
    MAX_ENTRIES,
    EgressEntryError,
    is_private_name,
    parse_egress_list,
    parse_host,
    write_destination,
)

ENTRIES = {
    "api.github.com:443": ("api.github.com", 443),
    "api.github.com": ("api.github.com", 443),
    "API.GitHub.Com.:80": ("api.github.com", 80),
    "10.0.0.5:8080": ("10.0.0.5", 8080),
    "[2001:DB8:0::1]:443": ("2001:db8::1", 443),
    "[::ffff:10.0.0.5]:1": ("10.0.0.5", 1),
    "localhost:5432": ("localhost", 5432),
    "127.0.0.1:5432": ("localhost", 5432),
    "[::1]:5432": ("localhost", 5432),
    "bücher.example:443": ("xn--bcher-kva.example", 443),
    "straße.example": ("xn--strae-oqa.example", 443),
    "xn--bcher-kva.example": ("xn--bcher-kva.example", 443),
    "db_1:65535": ("db_1", 65535),
}
BROKEN = {
    "": "expected the name or the address",
    ":443": "expected the name or the address",
    "https://a.example": "without a scheme",
    "a.example/path": "without a scheme",
    "user@a.example": "a user",
    "a.example:": "expected a port",
    "a.example:0": "expected a port",
    "a.example:65536": "expected a port",
    "a.example:+1": "expected a port",
    "a.example:٤٤٣": "expected a port",
    "a.example:https": "expected a port",
    "::1": "in brackets",
    "2001:db8::1:443": "in brackets",
    "[::1": "in brackets",
    "[fe80::1%eth0]:80": "IPv6 address in brackets",
    "[10.0.0.5]:80": "IPv6 address in brackets",
    "*": '"network": true',
    "*:443": '"network": true',
    "*.*.example.com": '"network": true',
    "a*.example.com": '"network": true',
    "a.*.com": '"network": true',
    "*.com": "two labels",
    "*.10.0.0.5:80": "two labels",
    "*.": "expected the name",
    "0.0.0.0:80": "This machine is localhost",
    "[::]:80": "This machine is localhost",
    "224.0.0.1:80": "address of one host",
    "127.1:80": "four decimal numbers",
    "2130706433:80": "four decimal numbers",
    "0x7f.0.0.1:80": "four decimal numbers",
    "0x7f000001:80": "four decimal numbers",
    "0177.0.0.1:80": "four decimal numbers",
    "10.0.0.256:80": "four decimal numbers",
    "a b.example": "expected the name",
    "-a.example": "expected the name",
    "a..example": "expected the name",
    "a.example\n": "expected the name",
    f"{'a' * 64}.example": "expected the name",
    f"{'a.' * 127}example": "expected the name",
    "a。b..example": "is not the name of a host",
}


@pytest.mark.parametrize(("entry", "destination"), ENTRIES.items())
def test_an_entry_is_one_host_at_one_port(entry: str, destination: tuple[str, int]) -> None:
    found = parse_egress_list([entry])
    assert [*found.exact] == [destination] and not found.wildcards
    assert found.allows(*destination) and not found.allows(destination[0], destination[1] % 65535 + 1)
    assert parse_egress_list([write_destination(*destination)]) == found


@pytest.mark.parametrize(("entry", "said"), BROKEN.items())
def test_a_malformed_entry_is_an_error_with_its_place(entry: str, said: str) -> None:
    with pytest.raises(EgressEntryError) as found:
        parse_egress_list(["a.example", entry])
    assert said in found.value.message and found.value.data == {"index": 1}


def test_too_many_entries_are_an_error() -> None:
    entries = [f"a{number}.example" for number in range(MAX_ENTRIES + 1)]
    assert len(parse_egress_list(entries[1:]).exact) == MAX_ENTRIES
    with pytest.raises(EgressEntryError, match="at most 100 entries"):
        parse_egress_list(entries)


def test_a_wildcard_is_one_label() -> None:
    found = parse_egress_list(["*.example.org:443"])
    assert found.allows("a.example.org", 443)
    for host in ("example.org", "a.b.example.org", "aexample.org", "a.example.org.evil.example", "a.example.com"):
        assert not found.allows(host, 443)
    assert not found.allows("a.example.org", 80)


@pytest.mark.parametrize(
    "host", ["аpi.github.com", "api.github.com\0", "api.github.com ", "[::1]x", "a%2e.b", "a/b", "a@b"]
)
def test_a_requested_host_in_another_form_is_refused(host: str) -> None:
    with pytest.raises(EgressEntryError):
        parse_host(host)


@given(st.text(string.printable, max_size=40))
def test_a_parsed_host_is_its_own_form(text: str) -> None:
    try:
        host = parse_host(text)
    except EgressEntryError:
        return
    assert parse_host(f"[{host}]" if ":" in host else host) == host == host.lower()


def test_names_of_private_networks_are_known_by_their_form() -> None:
    assert all(map(is_private_name, ("postgres", "db.internal", "printer.local", "nas.home.arpa")))
    assert not any(
        map(is_private_name, ("example.com", "localhost", "a.localhost", "10.0.0.5", "::2", "internal.example"))
    )
