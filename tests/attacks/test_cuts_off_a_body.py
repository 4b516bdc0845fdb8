"""Requests whose body is cut off, malformed or too long, over raw sockets and through nginx: nothing of them is done.

Source: RFC 9112 sections 7.1 and 8: an incomplete message is never processed.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from patchbay.web.openapi.routes import ALL_ROUTES
from tests.access.oauth.document_server import make_certificate
from tests.serving.proxies import nginx, proxied
from tests.serving.running import Hub, marks, running
from tests.waiting import BOUND

TOOL = '''"""Leaves a mark."""

from pathlib import Path


def leave(name: str = "unnamed") -> str:
    """Leave a mark of this name."""
    Path({folder!r}, name).touch()
    return "left"
'''

TEXT = b"h" * 40
FORM = b"do=make&name=halfway"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "leave", "arguments": {"name": "mark"}}}
CHUNKED = "Transfer-Encoding: chunked"
PLAIN, JSON, URLENCODED = "text/plain", "application/json", "application/x-www-form-urlencoded"

CUTS: dict[str, Callable[[bytes], bytes]] = {
    "no-last-chunk": lambda body: b"%x\r\n%s\r\n" % (len(body), body),
    "inside-the-last-chunk": lambda body: b"%x\r\n%s\r\n0\r\n" % (len(body), body),
    "inside-a-chunk": lambda body: b"%x\r\n%s" % (len(body) + 1, body),
    "inside-a-size": lambda body: b"%x\r\n%s\r\n1" % (len(body), body),
    "no-size": lambda body: b"%x\r\n%s\r\n\r\n" % (len(body), body),
    "malformed-size": lambda body: b"%x\r\n%s\r\nzz\r\n" % (len(body), body),
    "negative-size": lambda body: b"%x\r\n%s\r\n-1\r\n\r\n" % (len(body), body),
    "huge-size": lambda body: b"%x\r\n%s\r\nfffffffffffffffff\r\n" % (len(body), body),
    "longer-than-its-size": lambda body: b"%x\r\n%sxx\r\n0\r\n\r\n" % (len(body), body),
    "trailers": lambda body: b"%x\r\n%s\r\n0\r\nX-Checksum: 1\r\n\r\n" % (len(body), body),
    "inside-the-trailers": lambda body: b"%x\r\n%s\r\n0\r\nX-Checksum: 1\r\n" % (len(body), body),
    "malformed-trailers": lambda body: b"%x\r\n%s\r\n0\r\n\x00\r\n\r\n" % (len(body), body),
}
"""Ways to cut off a chunked body, whose bytes all come before the cut."""

REQUESTS = {
    "variable": ("PUT", "/variables/halfway", PLAIN, TEXT),
    "blob": ("POST", "/cid", PLAIN, TEXT),
    "upload": ("POST", "/blobs", PLAIN, TEXT),
    "form": ("POST", "/access/keys", URLENCODED, FORM),
    "call": ("POST", "/mcp/marker", JSON, json.dumps(CALL).encode()),
    "call-at-all-servers": ("POST", "/mcp", JSON, json.dumps(CALL).replace("leave", "marker__leave").encode()),
    "plain-call": ("POST", "/marker/leave", JSON, b'{"name": "mark"}'),
    "native": (
        "POST",
        "/rpc",
        JSON,
        json.dumps({**CALL, "method": "marker.leave", "params": {"name": "mark"}}).encode(),
    ),
    "room": ("PUT", "/rooms/halfway", JSON, b"{}"),
    "removal": ("DELETE", "/variables/kept", PLAIN, TEXT),
}
"""One request for each kind of body: method, path, media type and bytes."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "marker.py").write_text(TOOL.format(folder=str(marks(folder))))
    with running(folder, "--access", "shared", "--body-limit", "100000") as started:
        path = f"http://127.0.0.1:{started.port}/variables/kept"
        assert httpx2.put(path, content=b"kept", headers=started.as_operator()).is_success
        yield started


def head(hub: Hub, line: str, *headers: str, version: str = "1.1") -> bytes:
    """The head of a request of the operator."""
    own = ["Host: localhost", "Connection: close", f"Authorization: Bearer {hub.token()}"]
    own += ["Accept: application/json, text/event-stream"]
    return "\r\n".join([f"{line} HTTP/{version}", *own, *headers, "", ""]).encode()


def status(hub: Hub, data: bytes, ends: bool = True) -> int:
    """Send bytes, and no more if it `ends`; return the status of the answer, 0 for a connection closed without one."""
    answer = b""
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection, suppress(ConnectionError):
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while b"\r\n\r\n" not in answer and (piece := connection.recv(65536)):
            answer += piece
    return int(answer.split(b" ")[1]) if answer else 0


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Iterator[httpx2.Client]:
    """The operator's program, which looks after each attack: a client for each look would read all certificates."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{hub.port}", headers=hub.as_operator(), timeout=BOUND) as client:
        yield client


def left_behind(hub: Hub, operator: httpx2.Client) -> list[str]:
    """What a request of this module would leave behind, and what one would have removed."""
    get = operator.get

    found = ["a variable"] if get("/variables/halfway").status_code != 404 else []
    found += ["no variable"] if get("/variables/kept").status_code != 200 else []
    found += ["a key"] if "halfway" in get("/access/keys.json").text else []
    found += ["a room"] if "halfway" in get("/rooms.json").text else []
    return found + [path.name for path in marks(hub.folder).iterdir()]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_chunked_body_that_is_cut_off_is_not_processed(
    hub: Hub, operator: httpx2.Client, kind: str, cut: str
) -> None:
    method, path, media, body = REQUESTS[kind]
    sent = head(hub, f"{method} {path}", f"Content-Type: {media}", CHUNKED) + CUTS[cut](body)
    assert status(hub, sent, ends=cut != "trailers") == 400
    assert left_behind(hub, operator) == []


@pytest.mark.parametrize("size", [20, 20_000], ids=["short", "long"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_body_shorter_than_its_length_is_not_processed(
    hub: Hub, operator: httpx2.Client, kind: str, size: int
) -> None:
    method, path, media, body = REQUESTS[kind]
    sent = head(hub, f"{method} {path}", f"Content-Type: {media}", f"Content-Length: {len(body) + size}") + body
    assert status(hub, sent) in (0, 400)
    assert left_behind(hub, operator) == []


@pytest.mark.parametrize("end", [b"", b"0\r\n\r\n"], ids=["cut-off", "whole"])
def test_a_body_over_the_limit_is_not_processed(hub: Hub, operator: httpx2.Client, end: bytes) -> None:
    sent = head(hub, "PUT /variables/halfway", "Content-Type: text/plain", CHUNKED)
    sent += b"%x\r\n%s\r\n" % (100_001, b"x" * 100_001) + end
    assert status(hub, sent) in (0, 413)
    assert left_behind(hub, operator) == []


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_body_of_both_versions_of_http_is_cut_off_alike(hub: Hub, operator: httpx2.Client, version: str) -> None:
    """HTTP/1.0 has no chunks; HTTP/2 is not offered."""
    for kind in ("Content-Length: 60", CHUNKED):
        sent = head(hub, "PUT /variables/halfway", "Content-Type: text/plain", kind, version=version)
        assert status(hub, sent + CUTS["inside-a-chunk"](TEXT)) in (0, 400)
    assert left_behind(hub, operator) == []


@pytest.mark.parametrize("media", [URLENCODED, JSON])
def test_no_route_processes_a_body_that_is_cut_off(hub: Hub, operator: httpx2.Client, media: str) -> None:
    """Whether the body of the request means something to the route or not."""
    body = {URLENCODED: FORM, JSON: b'{"name": "mark"}'}[media]
    for route in ALL_ROUTES:
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"halfway", route.path)
        sent = head(hub, f"{route.method} {path}", f"Content-Type: {media}", CHUNKED) + CUTS["no-last-chunk"](body)
        assert status(hub, sent) >= 400, f"{route.method} {path}"
    assert left_behind(hub, operator) == []


@pytest.mark.parametrize("kind", ["variable", "call", "form"])
def test_a_whole_chunked_body_is_processed(hub: Hub, tmp_path: Path, kind: str) -> None:
    """The counterpart, in two chunks."""
    method, path, media, body = REQUESTS[kind]
    body = body.replace(b"mark", b"whole").replace(b"halfway", b"whole")
    chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
    sent = head(hub, f"{method} {path.replace('halfway', 'whole')}", f"Content-Type: {media}", CHUNKED) + chunks
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
        connection.sendall(sent)
        assert connection.recv(65536).split(b" ")[1] in (b"200", b"201", b"303")
    for mark in marks(hub.folder).iterdir():
        assert mark.name == "whole"
        mark.unlink()


@pytest.mark.process
@pytest.mark.parametrize("buffering", ["on", "off"])
def test_nginx_passes_on_no_body_that_is_cut_off(
    hub: Hub, operator: httpx2.Client, tmp_path: Path, buffering: str
) -> None:
    """As docs/sharing.md prints its configuration, and when nginx passes on each part of a body at once."""

    def with_buffering(folder: Path, port: int, behind: int, certificate: Path, key: Path) -> list[str]:
        command = nginx(folder, port, behind, certificate, key)
        config = folder / "nginx.conf"
        config.write_text(
            config.read_text().replace("proxy_pass ", f"proxy_request_buffering {buffering}; proxy_pass ")
        )
        return command

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with proxied(with_buffering, tmp_path / "nginx", hub.port, *make_certificate(tmp_path)) as address:
        port = int(address.rsplit(":", 1)[1])
        for cut in CUTS:
            if cut in ("trailers", "malformed-trailers"):
                continue  # nginx drops them: the body that it passes on is whole
            method, path, media, body = REQUESTS["variable"]
            sent = head(hub, f"{method} {path}", f"Content-Type: {media}", CHUNKED) + CUTS[cut](body)
            with (
                socket.create_connection(("127.0.0.1", port), BOUND) as plain,
                context.wrap_socket(plain) as connection,
            ):
                connection.sendall(sent)
                with suppress(ConnectionError):
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        continue
            assert left_behind(hub, operator) == [], cut
