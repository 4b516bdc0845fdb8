"""The connections of one program: their limits, their ends, and sockets that lead to one destination."""

from __future__ import annotations

import socket

import pytest

from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.egress.proxy import MAX_CONNECTIONS, EgressProxy
from patchbay.processes.egress.egress_list import parse_egress_list
from tests.client.egress.proxies import Echo, make_confinement, open_descriptors, read_all, run_proxy
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
        open_ones = [proxy.open(0) for _ in range(MAX_CONNECTIONS)]
        for each in open_ones:
            each.sendall(b"a")
            assert each.recv(1) == b"a"
        with proxy.open() as further:
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
