"""Requests of HTTP to the proxy of a program: each is checked by itself, and sent anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.egress.proxies import OK, Echo, Proxy, read_all, run_proxy
from tests.waiting import until


@pytest.fixture(name="host")
def _host() -> Iterator[Echo]:
    found = Echo(OK)
    yield found
    found.close()


@pytest.fixture(name="proxy")
def _proxy(host: Echo) -> Iterator[Proxy]:
    with run_proxy([f"api.localhost:{host.port}"]) as found:
        yield found


def test_a_tunnel_leads_to_a_listed_host(proxy: Proxy, host: Echo) -> None:
    head = f"CONNECT API.localhost.:{host.port} HTTP/1.1\r\nHost: other.example\r\n\r\n"
    assert proxy.ask(head + "GET / HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n" + OK
    assert host.requests == [b"GET / HTTP/1.1\r\n\r\n"]
    until(lambda: bool(proxy.kept))
    assert [(one.host, one.port, one.reached, one.refused) for one in proxy.kept] == [
        ("api.localhost", host.port, 1, 0)
    ]


def test_a_refusal_says_what_allows_the_host(proxy: Proxy) -> None:
    answer = proxy.ask("CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com\r\n\r\n").decode()
    assert answer.startswith("HTTP/1.1 403 ") and "Proxy-Status: patchbay; error=http_request_denied" in answer
    assert 'the operator adds "api.example.com:443" to "network" in the configuration of notes' in answer
    assert proxy.refused() == [("api.example.com", 443, "not listed")]


def test_a_host_that_does_not_answer_is_told_apart_from_a_refused_one(host: Echo) -> None:
    host.close()
    with run_proxy([f"localhost:{host.port}"]) as proxy:
        answer = proxy.ask(f"CONNECT localhost:{host.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 ") and b"Connection refused" in answer
        assert proxy.refused() == []


def test_a_url_is_requested_in_the_form_of_its_host(proxy: Proxy, host: Echo) -> None:
    head = (
        f"POST http://api.localhost:{host.port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\n"
        "Proxy-Authorization: Basic x\r\n"
        "Connection: close, X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert proxy.ask(head).endswith(b"\r\n\r\nhello")
    lines = host.requests[0].decode().split("\r\n")
    assert lines[0] == "POST /a?b=c HTTP/1.1" and lines[-1] == "body"
    assert sorted(line.lower() for line in lines[1:-2]) == [
        *("connection: close", "content-length: 4", f"host: api.localhost:{host.port}", "x-kept: 2")
    ]


def test_a_body_in_chunks_passes(proxy: Proxy, host: Echo) -> None:
    head = f"PUT http://api.localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert proxy.ask(head + "3\r\nabc\r\n0\r\n\r\n").endswith(b"hello")
    until(lambda: host.requests[0].endswith(b"3\r\nabc\r\n0\r\n\r\n"))


def test_a_second_request_of_a_connection_is_checked_again(proxy: Proxy, host: Echo) -> None:
    allowed = f"GET http://api.localhost:{host.port}/1 HTTP/1.1\r\nHost: x\r\n\r\n"
    refused = f"GET http://evil.localhost:{host.port}/2 HTTP/1.1\r\nHost: api.localhost:{host.port}\r\n\r\n"
    answer = proxy.ask(allowed + allowed + refused + allowed)
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.count(b"HTTP/1.1 403") == 1
    assert answer.index(b"403") > answer.rindex(b"hello")
    assert len(host.requests) == 2 and all(one.startswith(b"GET /1 ") for one in host.requests)
    assert proxy.refused() == [("evil.localhost", host.port, "not listed")]


HIDDEN = "GET http://evil.localhost:1/ HTTP/1.1\r\nHost: x\r\n\r\n"
AMBIGUOUS = {
    "two lengths": f"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
    "different lengths": f"Content-Length: 0\r\nContent-Length: 60\r\n\r\n{HIDDEN}",
    "an unknown coding": f"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
    "a length with a sign": f"Content-Length: +0\r\n\r\n{HIDDEN}",
    "a space before the colon": f"Content-Length : 60\r\n\r\n{HIDDEN}",
    "a carriage return in a field": f"X: a\rContent-Length: 60\r\n\r\n{HIDDEN}",
    "a NUL in a field": f"X: a\0b\r\n\r\n{HIDDEN}",
}


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_a_request_that_can_be_read_in_two_ways_is_refused(proxy: Proxy, host: Echo, rest: str) -> None:
    answer = proxy.ask(f"POST http://api.localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\n{rest}")
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")) and answer.count(b"HTTP/1.1") == 1
    assert host.requests == []


MALFORMED = [
    "GET / HTTP/1.1\r\nHost: api.localhost\r\n\r\n",
    "GET https://api.localhost/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET ftp://api.localhost/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http:/api.localhost/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://user:secret@api.localhost/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://api.localhost:80:81/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http:///path HTTP/1.1\r\nHost: api.localhost\r\n\r\n",
    "CONNECT api.localhost HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT api.localhost: HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT http://api.localhost:80/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT evil.example@api.localhost:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT api.localhost:80 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    "CONNECT api.localhost:080000 HTTP/1.1\r\nHost: x\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: api.localhost\r\n\r\n",
    "nonsense\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_request_to_a_proxy_is_refused(proxy: Proxy, host: Echo, text: str) -> None:
    assert proxy.ask(text).startswith(b"HTTP/1.1 400 ") and host.requests == []


def test_a_head_without_end_is_refused(proxy: Proxy) -> None:
    answer = proxy.ask("GET http://api.localhost/ HTTP/1.1\r\nHost: x\r\nX: " + "a" * 70_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("answer", "begin"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 502 "),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", b"HTTP/1.1 502 "),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 "),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.1 200 "),
    ],
)
def test_an_answer_that_is_no_answer_is_an_error_of_the_host(answer: bytes, begin: bytes) -> None:
    host = Echo(answer)
    with run_proxy([f"localhost:{host.port}"]) as proxy:
        request = f"GET http://localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\n\r\n"
        with proxy.open() as connection:
            connection.sendall(request.encode())
            assert connection.recv(65536).startswith(begin)
    host.close()


@pytest.mark.parametrize(("version", "interim"), [("1.0", 0), ("1.1", 1)])
def test_an_interim_answer_reaches_a_program_of_http_1_1_only(host: Echo, version: str, interim: int) -> None:
    """RFC 9110, section 15.2: a program of HTTP/1.0 does not know such answers."""
    host.answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK
    with run_proxy([f"localhost:{host.port}"]) as proxy, proxy.open() as connection:
        request = f"GET http://localhost:{host.port}/ HTTP/{version}\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 103 ") == interim and answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.endswith(b"hello")


def test_a_cut_answer_does_not_look_like_a_whole_one(host: Echo) -> None:
    host.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n"
    with run_proxy([f"localhost:{host.port}"]) as proxy, proxy.open() as connection:
        connection.sendall(f"GET http://localhost:{host.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert not read_all(connection).endswith(b"0\r\n\r\n")
