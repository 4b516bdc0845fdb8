"""Requests of SOCKS5 to the proxy of a program (RFC 1928)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.client.egress.proxies import Echo, Proxy, run_proxy

GREETING, CHOSEN = b"\x05\x01\x00", b"\x05\x00"
DONE = b"\x05\x00\x00\x01" + bytes(6)


@pytest.fixture(name="host")
def _host() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.close()


@pytest.fixture(name="proxy")
def _proxy(host: Echo) -> Iterator[Proxy]:
    with run_proxy([f"api.localhost:{host.port}", f"127.0.0.1:{host.port}"]) as found:
        yield found


def _name(host: str, port: int) -> bytes:
    return b"\x03" + bytes([len(host)]) + host.encode("latin-1") + port.to_bytes(2)


@pytest.mark.parametrize("name", ["api.localhost", "127.0.0.1"])
def test_a_listed_host_is_reached(proxy: Proxy, host: Echo, name: str) -> None:
    kind = _name(name, host.port)
    if name == "127.0.0.1":
        kind = b"\x01" + socket.inet_aton(name) + host.port.to_bytes(2)
    assert proxy.ask(GREETING + b"\x05\x01\x00" + kind + b"ping") == CHOSEN + DONE + b"ping"


def test_other_hosts_and_commands_are_refused(proxy: Proxy, host: Echo) -> None:
    port = host.port
    replies = {
        b"\x05\x01\x00" + _name("evil.example", 443): 2,
        b"\x05\x01\x00" + _name("evil.localhost\0.api.localhost", port): 2,
        b"\x05\x01\x00\x01" + socket.inet_aton("93.184.216.34") + b"\x01\xbb": 2,
        b"\x05\x01\x00\x04" + socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.2") + port.to_bytes(2): 2,
        b"\x05\x01\x00\x04" + bytes(16) + port.to_bytes(2): 2,
        b"\x05\x02\x00" + _name("api.localhost", port): 7,
        b"\x05\x03\x00" + _name("api.localhost", port): 7,
        b"\x05\x01\x00\x05": 8,
    }
    for request, reply in replies.items():
        assert proxy.ask(GREETING + request) == CHOSEN + bytes([5, reply, 0, 1]) + bytes(6), request
    assert host.requests == []


def test_a_way_of_authentication_is_not_offered(proxy: Proxy) -> None:
    assert proxy.ask(b"\x05\x01\x02") == b"\x05\xff"
    assert proxy.ask(b"\x05\x00") == b"\x05\xff"


def test_another_version_is_refused(proxy: Proxy) -> None:
    assert proxy.ask(b"\x04\x01\x00\x50\x7f\x00\x00\x01\0").startswith(b"HTTP/1.1 400 ")
    assert proxy.ask(GREETING + b"\x04\x01\x00\x01") == CHOSEN
