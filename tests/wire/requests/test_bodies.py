"""The limit on the body of a request, with its length announced and without, and bodies that are cut off."""

from __future__ import annotations

import io
import socket
import threading
from typing import Any

import pytest
from werkzeug.serving import make_server

from patchbay.errors import PatchbayError, TooLarge
from patchbay.wire.requests.bodies import LengthRequired, read_body
from patchbay.wire.requests.wsgi import BLIND_SERVER, read_environ
from tests.waiting import BOUND


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_of_the_limit_is_read_and_one_byte_more_is_refused(is_announced: bool) -> None:
    def read(data: bytes) -> bytes:
        length = {"CONTENT_LENGTH": str(len(data))} if is_announced else {}
        return read_body(read_environ({"wsgi.input": io.BytesIO(data), "wsgi.input_terminated": True, **length}), 10)

    assert read(b"0123456789") == b"0123456789"
    with pytest.raises(TooLarge, match="expected at most 10"):
        read(b"0123456789x")


def test_a_web_server_that_hides_a_cut_gets_no_chunked_body() -> None:
    """The WSGI interface of Granian shows a chunked body that is cut off like a whole one."""
    head = {"SERVER_SOFTWARE": BLIND_SERVER, "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    with pytest.raises(LengthRequired, match="send Content-Length") as refused:
        read_body(read_environ({**head, "wsgi.input": io.BytesIO(b"half")}), 10)
    assert refused.value.status == 411
    announced = read_environ({**head, "wsgi.input": io.BytesIO(b"whole"), "CONTENT_LENGTH": "5"})
    assert read_body(announced, 10) == b"whole"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (b"4\r\nhalf\r\n", 400),
        (b"9\r\nhalf", 400),
        (b"4\r\nhalf\r\nzz\r\n", 400),
        (b"4\r\nhalf\r\n-1\r\n", 400),
        (b"5\r\nwhole\r\n0\r\n\r\n", 200),
    ],
)
def test_a_chunked_body_that_is_cut_off_is_refused_under_the_server_of_flask(chunks: bytes, expected: int) -> None:
    """RFC 9112 section 8, with the web server of `flask run`."""

    def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        try:
            body, status = read_body(read_environ(environ), 100), 200
        except PatchbayError as problem:
            body, status = problem.message.encode(), problem.status
        start_response(f"{status} Answer", [("Content-Length", str(len(body)))])
        return [body]

    server = make_server("127.0.0.1", 0, answer)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), BOUND) as connection:
            connection.sendall(b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
            connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
    finally:
        thread.join(BOUND)
        server.server_close()
    assert int(received.split(b" ")[1]) == expected
