"""The connections of one program: their limits, their ends, and sockets that lead to one destination."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.egress.limits import EgressLimits
from patchbay.client.egress.proxy import LIMITS, EgressProxy
from patchbay.processes.egress.egress_list import parse_egress_list
from tests.client.egress.proxies import OK, Echo, make_confinement, open_descriptors, read_all, run_proxy
from tests.waiting import until


def test_a_socket_of_a_destination_leads_there_without_a_request() -> None:
    host = Echo()
    with run_proxy([f"api.localhost:{host.port}"], [("api.localhost", host.port), ("other.example", 443)]) as proxy:
        with proxy.open(0) as connection:
            connection.sendall(b"\x05ping")
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b"\x05ping"
        with proxy.open(1) as connection:
            assert read_all(connection) == b""
        assert proxy.refused() == [("other.example", 443, "not listed")]
    host.close()


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on() -> None:
    host = Echo()
    with run_proxy([f"localhost:{host.port}"], [("localhost", host.port)]) as proxy:
        open_ones = [proxy.open(0) for _ in range(LIMITS.connections)]
        for each in open_ones:
            each.sendall(b"a")
            assert each.recv(1) == b"a"
        with proxy.open(0) as further:
            with suppress(OSError):  # it is closed already
                further.sendall(b"x")
            assert read_all(further) == b""
        open_ones.pop().close()
        open_ones[0].sendall(b"b")
        assert open_ones[0].recv(1) == b"b"

        def is_served() -> bool:
            with proxy.open(0) as again:
                again.sendall(b"c")
                again.shutdown(socket.SHUT_WR)
                return read_all(again) == b"c"

        until(is_served)
        for each in open_ones:
            each.close()
    host.close()


@pytest.mark.parametrize("begin", [b"", b"CONNECT a.exa", b"\x05", b"\x05\x01\x00\x05\x01\x00\x03\xffabc"])
def test_half_a_request_ends_after_its_time(begin: bytes) -> None:
    with run_proxy(["a.example"], limits=EgressLimits(request=0.05)) as proxy, proxy.open() as connection:
        connection.sendall(begin)
        assert read_all(connection) in (b"", b"\x05\x00")


@pytest.mark.parametrize("is_half_closed", [False, True])
def test_a_connection_without_bytes_ends_after_its_time(is_half_closed: bool) -> None:
    host = Echo(OK)  # which never ends its direction, without a request
    limits = EgressLimits(idle=1000.0, half_closed=0.05) if is_half_closed else EgressLimits(idle=0.05)
    with run_proxy([f"localhost:{host.port}"], limits=limits) as proxy, proxy.open() as connection:
        connection.sendall(f"CONNECT localhost:{host.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        if is_half_closed:
            host.keep_open = True
            connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b"HTTP/1.1 200 Connection established\r\n\r\n"
    host.close()


def test_the_next_request_of_a_connection_has_its_time() -> None:
    host = Echo(OK)
    limits = EgressLimits(between=0.05)
    with run_proxy([f"localhost:{host.port}"], limits=limits) as proxy, proxy.open() as connection:
        connection.sendall(f"GET http://localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert read_all(connection).endswith(b"hello")
    host.close()


def test_a_content_that_ends_too_early_ends_the_request() -> None:
    host = Echo()
    with run_proxy([f"localhost:{host.port}"]) as proxy:
        head = f"POST http://localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"
        host.answer = b"later"
        host.is_silent = True
        assert proxy.ask(head).startswith(b"HTTP/1.1 502 ")
    host.close()


def test_a_slow_reader_holds_a_bounded_part_of_an_answer() -> None:
    host = Echo()
    with run_proxy([f"localhost:{host.port}"], [("localhost", host.port)]) as proxy, proxy.open(0) as connection:
        connection.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            while sent < 200_000_000:
                sent += connection.send(bytes(65536))
        until(lambda: bool(host.requests) and bool(host.requests[0]))
        # What waits is in the buffers of the kernel, of both sides; the proxy itself holds little.
        assert sent < 100_000_000
    host.close()


def test_everything_of_a_program_ends_with_it() -> None:
    before = open_descriptors()
    host = Echo()
    with run_proxy([f"localhost:{host.port}"], [("localhost", host.port)]) as proxy:
        waiting, running = proxy.open(), proxy.open(0)
        running.sendall(b"a")
        assert running.recv(1) == b"a"
    assert read_all(waiting) == read_all(running) == b""
    with pytest.raises(ConnectionRefusedError):
        proxy.open()
    for each in (waiting, running):
        each.close()
    host.close()
    until(lambda: open_descriptors() <= before)


def test_a_start_that_fails_serves_nothing() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    loop = EventLoopThread("tests-egress")
    running = loop.start(EgressProxy(make_confinement([]), parse_egress_list([]), (None,)).serve(ours))
    until(lambda: ours.fileno() == -1)
    running.cancel()
    loop.close()
