"""A reach that has to be public: each request goes to the very address that was checked for it (THREATS 1.7)."""

from __future__ import annotations

import socket
import threading

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection import http
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import Unreachable
from patchbay.errors import PatchbayError


def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    asked: list[bytes] = []

    def checking(host: str, port: int, who: str, remedy: str) -> str:
        checked.append(host)
        return "127.0.0.1"

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    monkeypatch.setattr(http, "resolve_public_address", checking)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        thread = threading.Thread(target=serve)
        thread.start()
        # No name server knows this host: it was reached by its checked address, or not at all.
        with pytest.raises(PatchbayError, match="403"):
            Connection.open(Http(f"http://far.invalid:{port}/mcp", public=True))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert asked and len(checked) == len(asked)
    assert all(f"host: far.invalid:{port}".encode() in each.lower() for each in asked)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:7f00:1]"])
def test_a_private_address_is_refused_before_anything_is_sent(host: str) -> None:
    with pytest.raises(Unreachable, match="not a public address"):
        Connection.open(Http(f"http://{host}:1/mcp", public=True))
