"""A stranger attacks a shared hub through nginx, which has the configuration that docs/sharing.md prints."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import orjson
import pytest

from tests.access.oauth.document_server import make_certificate
from tests.serving.proxies import nginx, printed, proxied
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.process]

MARK = '"""Mark."""\n\n\ndef mark() -> str:\n    """Say that it ran."""\n    return "r" + "an"\n'
CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mark", "arguments": {}}})
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(CALL), CALL) + SMUGGLED
PROTECTED = ("servers", "mcp/mark", "access/keys", "people", "metrics")


@dataclass(frozen=True)
class Public:
    """The hub as the public reaches it: its port at nginx, and a key."""

    port: int
    key: str

    def connect(self, address: str = "127.0.0.1") -> ssl.SSLSocket:
        """Connect from an address of this machine; the connection buffers few bytes of answers that are not read."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(BOUND)
        connection.bind((address, 0))
        connection.connect(("127.0.0.1", self.port))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(connection)

    def send(self, data: bytes, address: str = "127.0.0.1") -> bytes:
        """Send bytes; return all that comes back until nginx closes."""
        with self.connect(address) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def get(self, path: str, *headers: str, address: str = "127.0.0.1") -> tuple[int, bytes]:
        """Status and the whole answer of a GET."""
        answer = self.send(self.head(f"GET {path}", *headers, "Connection: close"), address)
        return int(answer.split(b" ")[1]), answer

    def head(self, line: str, *headers: str) -> bytes:
        host = f"Host: localhost:{self.port}"
        return "\r\n".join([f"{line} HTTP/1.1", host, "Accept: application/json", *headers, "", ""]).encode()

    def with_key(self) -> str:
        return f"Authorization: Bearer {self.key}"


def make_key(hub: Hub) -> str:
    headers = {"Accept": "application/json", **hub.as_operator()}
    form = {"do": "make", "name": "robot"}
    return str(httpx2.post(f"http://127.0.0.1:{hub.port}/access/keys", data=form, headers=headers).json()["token"])


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Public]:
    folder = tmp_path_factory.mktemp("hub")
    files = make_certificate(tmp_path_factory.mktemp("certificate"))
    (folder / "servers").mkdir()
    (folder / "servers" / "mark.py").write_text(MARK)
    place: Path = tmp_path_factory.mktemp("proxy") / "nginx"
    with running(folder, "--access", "shared") as hub, proxied(nginx, place, hub.port, *files) as address:
        yield Public(int(address.rpartition(":")[2]), make_key(hub))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([f"Content-Length: {len(CHUNKS)}", "Transfer-Encoding: chunked"], CHUNKS),
        (["Content-Length: 4", "Transfer-Encoding: chunked"], CHUNKS),
        (["Transfer-Encoding: xchunked"], CHUNKS),
        (["Transfer-Encoding: gzip, chunked"], CHUNKS),
        ([f"Content-Length: {len(CHUNKS)}", "Transfer-Encoding : chunked"], CHUNKS),
        (["Transfer-Encoding:", "  chunked"], CHUNKS),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], CHUNKS),
        ([f"Content-Length: {len(CALL)}", "Content-Length: 0"], CALL + SMUGGLED),
        ([f"Content-Length: +{len(CALL)}"], CALL + SMUGGLED),
        ([f"Content-Length: {len(CALL)}", "X: a\nTransfer-Encoding: chunked"], CALL + SMUGGLED),
        ([f"Content-Length: {len(CALL)}", "X: a\rTransfer-Encoding: chunked"], CALL + SMUGGLED),
        (["Transfer-Encoding: chunked"], CHUNKS.replace(b"\r\n", b";a\nb\r\n", 1)),
        (["Transfer-Encoding: chunked"], b"0x" + CHUNKS),
    ],
)
def test_a_request_with_two_lengths_runs_nothing(public: Public, headers: list[str], body: bytes) -> None:
    """THREATS 1.1, request smuggling: one refusal, and no second answer on the connection."""
    usual = ["Content-Type: application/json", public.with_key()]
    answer = public.send(public.head("POST /mcp/mark", *usual, *headers) + body)
    assert re.match(rb"HTTP/1.1 (400|501) ", answer) and answer.count(b"HTTP/1.1 ") == 1, answer


def test_a_plain_call_runs(public: Public) -> None:
    """The counterpart."""
    length = [f"Content-Length: {len(CALL)}", "Connection: close", "Content-Type: application/json"]
    assert b'"ran"' in public.send(public.head("POST /mcp/mark", *length, public.with_key()) + CALL)


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-User: operator",
        "Remote-User: operator",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1",
        "X-Original-URL: /healthz",
        "X-Rewrite-URL: /healthz",
        "X-Forwarded-Prefix: /static",
        "Patchbay-Principal: operator",
        "Via: 1.1 localhost",
    ],
)
def test_no_header_of_a_stranger_is_an_identity(public: Public, header: str) -> None:
    assert {public.get(f"/{path}", header)[0] for path in PROTECTED} == {401}


@pytest.mark.parametrize(
    "way",
    [
        *("/static/../", "/static/%2e%2e/", "/static/..%2f", "/static//../", "/static/..;/", "/static\\..\\", "//"),
        *("/%2f", "/./", "/login/../", "/login%3f/../", "/healthz%2f..%2f", "/%2e/", "/%252e%252e/", "/x/../"),
    ],
)
def test_no_spelling_of_a_path_opens_what_is_protected(public: Public, way: str) -> None:
    assert {public.get(way + path)[0] for path in PROTECTED} <= {400, 401, 404}


@pytest.mark.parametrize("path", ["/servers//mark", "/static//style.css", "//evil.example//servers"])
def test_no_redirect_leaves_tls(public: Public, path: str) -> None:
    """A redirect to http would send the browser of a member to any server that answers on the network."""
    status, answer = public.get(path, public.with_key())
    assert status == 404 and b"http://" not in answer.partition(b"\r\n\r\n")[0], answer


def test_one_address_does_not_take_the_connections_of_all(public: Public) -> None:
    """Requests without a key that do not end; nginx has one address at the hub for all clients."""
    [limit] = map(int, re.findall(r"limit_conn hub (\d+);", printed("nginx")))
    with ExitStack() as held:
        slow = [held.enter_context(public.connect()) for _ in range(limit + 5)]
        for connection in slow:
            connection.sendall(public.head("POST /login", "Content-Length: 1000000"))

        def is_full() -> bool:
            for connection in slow:
                with suppress(OSError):  # those above the limit are closed
                    connection.sendall(b"x")  # nginx ends a request whose body stands still
            return public.get("/healthz")[0] == 429

        until(is_full, "the limit of one address")
        assert public.get("/healthz", address="127.0.0.2")[0] == 200
    until(lambda: public.get("/healthz")[0] == 200)
