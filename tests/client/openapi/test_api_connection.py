"""Kept connections to an HTTP API that the server closes, and the reasons that failures name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from patchbay.client.errors import ServerTimeout, Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.openapi.api_connection import ApiConnection, ApiExchange
from patchbay.client.openapi.http_client import ApiClient, Reply, RequestRules
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import PatchbayError
from tests.access.oauth.document_server import make_certificate
from tests.client.openapi.closing_api import ClosingApi, closing_api
from tests.interaction.programs import free_port
from tests.waiting import BOUND

CLOSED = "it closed the connection before it answered"
REFUSED = "the connection was refused, so no server listens at this port"
BROKEN_OFF = "it closed the connection in the middle of its answer"


@contextmanager
def connected(url: str) -> Iterator[ApiConnection]:
    connection = ApiConnection(RequestRules((url,), {}), 1000)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def serving(*scripts: list[str]) -> Iterator[tuple[ClosingApi, ApiConnection]]:
    with closing_api(*scripts) as api, connected(api.url) as connection:
        yield api, connection


def receive(exchange: ApiExchange) -> bytes:
    """Read an answer to its end. Raises the error that ends it."""
    body = b""
    while (piece := exchange.get(BOUND)) is not None:
        if isinstance(piece, PatchbayError):
            raise piece
        body += b"" if isinstance(piece, Reply) else piece
    return body


def send(connection: ApiConnection, url: str, method: str = "GET", timeout: float = BOUND) -> bytes:
    content = b"text" if method in ("POST", "PUT", "PATCH") else None
    return receive(connection.start(HttpRequest(method, url, content=content), timeout))


@pytest.mark.parametrize("ending", ["close", "reset", "part of the head"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_a_safe_request_is_sent_again_when_the_server_closed_the_kept_connection(ending: str, method: str) -> None:
    """RFC 9110 section 9.2.2: a client may repeat a request whose method is safe."""
    with serving(["answer", ending], ["answer"]) as (api, connection):
        assert send(connection, api.url) == b"ok"
        assert send(connection, api.url, method) == b"ok"
        assert api.seen == [(0, "GET"), (0, method), (1, method)]


def test_the_second_attempt_uses_a_new_connection_though_another_one_is_kept() -> None:
    scripts = ["answer together", "close"], ["answer together", "close"], ["answer"]
    with serving(*scripts) as (api, connection):
        both = [connection.start(HttpRequest("GET", api.url), BOUND) for _ in range(2)]
        assert [receive(one) for one in both] == [b"ok", b"ok"]
        assert send(connection, api.url) == b"ok"
        assert [number for number, _ in api.seen[2:]] in ([0, 2], [1, 2])


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_request_that_may_change_something_is_not_sent_again(ending: str, method: str) -> None:
    with serving(["answer", ending], ["answer"]) as (api, connection):
        send(connection, api.url)
        with pytest.raises(Unreachable) as caught:
            send(connection, api.url, method)
        assert caught.value.message == f"{api.url} cannot be reached: {CLOSED}"
        assert api.seen == [(0, "GET"), (0, method)]


def test_a_request_is_not_sent_a_third_time() -> None:
    with serving(["answer", "close"], ["close"], ["answer"]) as (api, connection):
        send(connection, api.url)
        with pytest.raises(Unreachable, match=CLOSED):
            send(connection, api.url)
        assert api.seen == [(0, "GET"), (0, "GET"), (1, "GET")]


def test_a_request_on_a_new_connection_is_not_sent_again() -> None:
    with serving(["close"], ["close"], ["answer"]) as (api, connection):
        for _ in range(2):
            with pytest.raises(Unreachable, match=CLOSED):
                send(connection, api.url)
        assert api.seen == [(0, "GET"), (1, "GET")]


def test_a_request_is_not_sent_again_after_the_head_of_its_answer() -> None:
    with serving(["answer", "part of the body"], ["answer"]) as (api, connection):
        send(connection, api.url)
        with pytest.raises(Unreachable, match=BROKEN_OFF):
            send(connection, api.url)
        assert api.seen == [(0, "GET"), (0, "GET")]


def test_a_refused_connection_and_a_late_answer_are_named() -> None:
    refused = f"http://127.0.0.1:{free_port()}/"
    with connected(refused) as connection, pytest.raises(Unreachable, match=REFUSED):
        send(connection, refused)
    late = pytest.raises(ServerTimeout, match=r"did not answer within 0\.2 s")
    with serving(["silence"]) as (api, connection), late:
        send(connection, api.url, timeout=0.2)


def test_the_reason_against_a_certificate_is_named(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*make_certificate(tmp_path))
    refused = pytest.raises(Unreachable, match="its TLS certificate is not accepted: self-signed certificate")
    with closing_api(["answer"], tls=tls) as api, connected(api.url) as connection, refused:
        send(connection, api.url)


@pytest.mark.parametrize("step", ["close", "reset"])
def test_the_reading_of_a_document_names_the_reason_too(step: str) -> None:
    with closing_api([step]) as api, ApiClient((api.url,), {}, BOUND, 1000) as client:
        with pytest.raises(Unreachable) as caught:
            client.send(HttpRequest("GET", api.url))
        assert caught.value.message == f"{api.url} cannot be reached: {CLOSED}"


def make_error(cause: BaseException) -> Exception:
    """An error of the HTTP library without a text, with its cause."""
    error = httpx2.ConnectError("")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (make_error(ExceptionGroup("", [ConnectionRefusedError()])), REFUSED),
        (make_error(OSError("all of https://user:word@a/ failed")), "all of https://user:***@a/ failed"),
        (httpx2.ConnectError(""), "ConnectError"),
    ],
)
def test_a_failure_without_a_text_has_the_reason_of_its_cause(problem: Exception, expected: str) -> None:
    assert describe_failure(problem, has_answered=False) == expected
