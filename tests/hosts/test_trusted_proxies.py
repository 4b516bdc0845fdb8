"""The address of a client behind proxies: what named proxies say of it, and what it says of itself."""

from __future__ import annotations

import tracemalloc

import pytest

from patchbay.errors import ConfigError
from patchbay.hosts.trusted_proxies import MAX_HEADER_CHARACTERS, MAX_HOPS, TrustedProxies
from patchbay.settings import Settings

PROXIES = TrustedProxies(("127.0.0.1", "10.0.0.0/8", "fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
        ("127.0.0.1", "198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "198.51.100.1, 192.0.2.7, 10.1.2.3", "192.0.2.7"),
        ("::ffff:127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "::ffff:192.0.2.7", "192.0.2.7"),
        ("fd00::1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("127.0.0.1", "2001:db8::7", "2001:db8::7"),
        ("127.0.0.1", "10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.7, unknown", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.7,", "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("192.0.2.9", "192.0.2.7", "192.0.2.9"),
        ("", "192.0.2.7", ""),
    ],
)
def test_the_client_is_the_last_address_that_is_no_named_proxy(peer: str, forwarded: str | None, expected: str) -> None:
    assert PROXIES.find_client(peer, forwarded) == expected
    assert PROXIES.find_client(expected, forwarded) == expected, "to ask twice changes nothing"


def test_of_a_long_header_the_end_counts_and_little_is_kept() -> None:
    """The memory of answers held 118 MiB after 5000 headers of 30 kB."""
    proxies = TrustedProxies(("127.0.0.1",))
    end = ", 203.0.113.9" + ", 127.0.0.1" * (MAX_HOPS - 1)
    tracemalloc.start()
    try:
        for number in range(200):
            assert proxies.find_client("127.0.0.1", f"{number}, " + "198.51.100.1, " * 2000 + end) == "203.0.113.9"
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


@pytest.mark.parametrize("cut", range(1, len("192.0.2.255")))
def test_a_part_of_an_address_at_the_cut_is_not_taken_for_an_address(cut: int) -> None:
    tail = ",10.0.0.1" + " " * (MAX_HEADER_CHARACTERS - len(",10.0.0.1") - cut)
    assert PROXIES.find_client("127.0.0.1", f"198.51.100.1, 192.0.2.255{tail}") == "10.0.0.1"


def test_without_named_proxies_the_header_says_nothing() -> None:
    assert TrustedProxies(()).find_client("127.0.0.1", "192.0.2.7") == "127.0.0.1"


@pytest.mark.parametrize("entry", ["proxy.example", "10.0.0.1/8", "*", "10.0.0.0/33"])
def test_an_entry_that_is_no_address_stops_the_start(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"trusted_proxies: expected addresses and networks"):
        Settings.load({"trusted_proxies": f"127.0.0.1,{entry}"}, {})
