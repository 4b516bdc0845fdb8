"""Requests over connections of their own, whose answers have the members of Werkzeug's test response."""

from __future__ import annotations

import errno
import http.client
import socket
from collections.abc import Iterator, Sequence
from functools import cached_property
from urllib.parse import urlsplit

from tests.waiting import BOUND


class SocketResponse:
    """One answer over a connection of its own. A body is read when it is asked for."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._socket: socket.socket = connection.sock  # the answer may take it from the connection
        self._connection = connection
        self._answer = connection.getresponse()
        self.status_code = self._answer.status
        self.headers = self._answer.headers

    @property
    def mimetype(self) -> str:
        """The media type in lower case, without its parameters; empty without one."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @cached_property
    def _body(self) -> bytes:
        return self._answer.read()

    def get_data(self, as_text: bool = False) -> bytes | str:
        """The whole body."""
        return self._body.decode() if as_text else self._body

    @property
    def response(self) -> Iterator[bytes]:
        """The body line by line, as it comes. Raises IncompleteRead when it ends without its last chunk."""
        return iter(self._answer.readline, b"")

    def close(self) -> None:
        """Leave; returns when the hub has closed the connection too."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(65536):
                pass
        except OSError as problem:
            if not isinstance(problem, ConnectionError) and problem.errno not in (errno.ENOTCONN, errno.EBADF):
                raise  # all others say that it is closed
        finally:
            self._answer.close()
            self._connection.close()
            self._socket.close()


def send_request(
    url: str, address: str, verb: str, headers: Sequence[tuple[str, str]], data: bytes | None
) -> SocketResponse:
    """Send a request with these headers alone, and the length of its body, over a new connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=BOUND)
    connection.putrequest(verb, address, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    if data is not None:
        connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    return SocketResponse(connection)
