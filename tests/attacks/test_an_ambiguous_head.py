"""Requests whose head means one thing to a proxy and another to the hub, over raw sockets.

The hub refuses those that the web server inside it passes on, with 400 or 403, and runs nothing; docs/operation.md
names the others.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.serving.running import Hub, running
from tests.waiting import BOUND

MARK = '''"""Mark."""


def mark() -> str:
    """Say that it ran."""
    return "r" + "an"
'''

BODY = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mark", "arguments": {}}}
).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKS, LENGTH = "Transfer-Encoding: chunked", "Content-Length: 5"
USUAL = ["Host: localhost", "Content-Type: application/json", "Accept: application/json"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "mark.py").write_text(MARK)
    with running(folder) as started:
        yield started


def sent(hub: Hub, line: str, headers: list[str], body: bytes = b"") -> bytes:
    """Return the answer to a request of these lines, until the connection closes."""
    head = "\r\n".join([line, *headers, "Connection: close", "", ""]).encode("latin-1")
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
        connection.sendall(head + body)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def called(hub: Hub, *headers: str) -> bytes:
    """Return the answer to a call with these additional headers."""
    return sent(hub, "POST /mcp/mark HTTP/1.1", [*USUAL, f"Content-Length: {len(BODY)}", *headers], BODY)


@pytest.mark.parametrize(
    "headers",
    [
        ["Host: evil.example"],
        ["Host: localhost"],
        ["Host: 127.0.0.1"],
        ["Origin: http://localhost", "Origin: http://evil.example"],
        ["Origin: null", "Origin: http://localhost"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site"],
        ["Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-origin"],
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"],
        ["Content_Type: text/plain"],
        ["Content_Length: 3"],
        ["Content-Length: 3"],
        ["MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2026-07-28"],
        ["MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-06-18"],
        ["Mcp-Method: tools/call", "Mcp-Method: tools/list"],
        ["Mcp-Param-Place: Rome", "Mcp-Param-Place: Oslo"],
        ["Authorization: Bearer a", "Authorization: Bearer b"],
        ["Last-Event-ID: 1-1", "Last-Event-ID: 1-2"],
        ["Content-Type: text/plain"],
        ["Content-Type: application/json; charset=latin-1"],
        ["Mcp_Session_Id: x"],
        ["MCP_Protocol_Version: 2025-06-18"],
        ["MCP-Protocol_Version: 2025-06-18"],
        ["Sec_Fetch_Site: same-origin"],
        ["X_Forwarded_For: 192.0.2.1"],
        ["X_Real_IP: 127.0.0.1"],
        ["Last_Event_ID: 1-1"],
        [" folded: yes"],
        ["X : space"],
        ["X: a\x00b"],
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(hub: Hub, headers: list[str]) -> None:
    """M12: 400 or 403, and the tool does not run."""
    answer = called(hub, *headers)
    assert answer.split(b" ")[1] in (b"400", b"403"), answer
    assert b'"ran"' not in answer


@pytest.mark.parametrize(
    ("coding", "status"), [("gzip, chunked", 501), ("identity, chunked", 501), ("chunked, chunked", 400)]
)
def test_a_body_in_another_coding_than_chunked_is_refused(hub: Hub, coding: str, status: int) -> None:
    """RFC 9112 section 6.1: the web server undoes the last coding only, so that the hub would read coded bytes."""
    answer = sent(hub, "POST /mcp/mark HTTP/1.1", [*USUAL, f"Transfer-Encoding: {coding}"], CHUNKED)
    assert answer.startswith(b"HTTP/1.1 %d " % status) and b'"ran"' not in answer
    assert b'"ran"' in sent(hub, "POST /mcp/mark HTTP/1.1", [*USUAL, "Transfer-Encoding: Chunked"], CHUNKED)


@pytest.mark.parametrize("headers", [[CHUNKS, LENGTH], [LENGTH, CHUNKS]], ids=["chunks-first", "length-first"])
def test_chunks_beside_a_length_hide_no_second_request(hub: Hub, headers: list[str]) -> None:
    """RFC 9112 section 6.1: the chunks count, and the connection ends with the answer."""
    head = "\r\n".join(["POST /mcp/mark HTTP/1.1", *USUAL, *headers, "", ""]).encode()
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
        connection.sendall(head + CHUNKED + second)
        answer = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
    assert answer.count(b"HTTP/1.1 ") < 2


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Sec-Fetch-Site: same-origin"],
        ["Sec-Fetch-Site: none"],
        ["API_KEY: mine", "Cookie: a=1", "Cookie: b=2"],
        ["Accept-Language: en", "Accept-Language: de"],
    ],
)
def test_a_plain_head_is_not(hub: Hub, headers: list[str]) -> None:
    """The counterpart."""
    answer = called(hub, *headers)
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"ran"' in answer


@pytest.mark.parametrize("path", ["/mcp/mark/sse", "/rpc", "/healthz", "/servers"])
def test_another_site_cannot_load_content_of_the_hub(hub: Hub, path: str) -> None:
    """As a picture, a script or a stream; a link that a person follows is allowed."""
    loading = ["Host: localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"]
    assert sent(hub, f"GET {path} HTTP/1.1", loading).startswith(b"HTTP/1.1 403 ")
    if path == "/servers":
        following = ["Host: localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"]
        assert sent(hub, f"GET {path} HTTP/1.1", following).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "line", ["CONNECT evil.example:443 HTTP/1.1", "OPTIONS * HTTP/1.1", "GET http://localhost HTTP/1.1"]
)
def test_a_target_without_a_path_is_refused(hub: Hub, line: str) -> None:
    """RFC 9112 section 3.2: this form asks a proxy, and the hub is not a proxy."""
    expected = b"200" if line.startswith("GET") else b"400"  # an absolute form without a path means the root
    assert sent(hub, line, ["Host: localhost"]).split(b" ")[1] == expected


@pytest.mark.parametrize("host", ["evil.example", "", "localhost@evil.example", "localhost,evil.example"])
def test_an_absolute_target_opens_no_door_for_another_host(hub: Hub, host: str) -> None:
    for target in ("http://localhost/servers", "/servers"):
        answer = sent(hub, f"GET {target} HTTP/1.1", [f"Host: {host}"])
        assert answer.split(b" ")[1] in (b"400", b"403", b"421"), answer


@pytest.mark.parametrize("authority", ["evil.example", "localhost:1", "localhost@evil.example", "me@localhost"])
def test_a_target_of_another_authority_than_host_is_refused(hub: Hub, authority: str) -> None:
    """RFC 9112 section 3.2.2: a proxy goes by the target, so a hub that goes by Host would answer another request."""
    assert sent(hub, f"GET http://{authority}/servers HTTP/1.1", ["Host: localhost"]).startswith(b"HTTP/1.1 400 ")
    assert sent(hub, "GET http://LocalHost/servers HTTP/1.1", ["Host: localhost"]).startswith(b"HTTP/1.1 200 ")
