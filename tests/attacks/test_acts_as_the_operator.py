"""A program without the operator's token tries to act as the operator of a hub that is started as users start it.

It comes over loopback, like another user of the machine, like a tool of the hub, and like every client behind a proxy
that adds no header. Writing a variable or a definition is running code, so each of these attempts must fail.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlencode

import orjson
import pytest

from patchbay.access.operator_token import HASH_FILE, TOKEN_FILE
from patchbay.web.operator.operators import MAX_WRONG_TOKENS
from tests.serving.running import Hub, running
from tests.waiting import BOUND

pytestmark = pytest.mark.process

TOOL = '''"""Tries to change the hub that runs it."""

import http.client
import pathlib


def change(port: int, folder: str) -> str:
    """Set a variable over loopback, with the operator's token if it can be read."""
    try:
        token = (pathlib.Path(folder) / "data" / "operator.token").read_text().strip()
    except OSError:
        token = ""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("PUT", "/variables/stolen", b"1", {"Authorization": f"Bearer {token}"})
        return f"answered {connection.getresponse().status}"
    except OSError as problem:
        return f"refused by the system: {type(problem).__name__}"
'''
FORM = "application/x-www-form-urlencoded"
CODE = '"""Mine."""\n\n\ndef mine() -> str:\n    return "mine"\n'
WRITES = [
    ("PUT", "/variables/stolen", b"1", "text/plain"),
    ("DELETE", "/variables/mcps", b"", "text/plain"),
    ("POST", "/cid", b"mine", "application/octet-stream"),
    ("POST", "/servers/new", urlencode({"action": "save", "name": "mine", "source": CODE}).encode(), FORM),
    ("POST", "/servers/trying/edit", urlencode({"action": "save", "source": CODE}).encode(), FORM),
    ("POST", "/history/rollback", b"name=servers/trying&cid=", FORM),
    ("POST", "/inspect", b"address=http://127.0.0.1:9/mcp", FORM),
    ("POST", "/inspect/profile", b"address=http://127.0.0.1:9/mcp&name=mine", FORM),
    ("POST", "/inspect/mount", b"address=http://127.0.0.1:9/mcp&name=mine", FORM),
    ("POST", "/inspect/mcp?address=http://127.0.0.1:9/mcp", b"{}", "application/json"),
]
"""Every request that changes something, as method, path, body and media type."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "trying.py").write_text(TOOL)
    with running(folder) as started:
        yield started


def sent(
    port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    """Return status, headers (by lower-case names) and text of one request over loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=BOUND)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        answer_headers = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, answer_headers, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def root(hub: Hub) -> str:
    """Return the root of what the hub serves: it changes with every change."""
    return str(orjson.loads(hub.get("/history.json")[1])["changes"][0]["cid"])


@contextmanager
def silent_proxy(hub: Hub) -> Iterator[int]:
    """The port of a proxy that forwards bytes and adds no header, like nginx by default."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_hand_on, args=(listening, hub.port), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(BOUND)


def _hand_on(listening: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port), BOUND)
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join(BOUND)
        client.close()
        server.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(("method", "path", "body", "kind"), WRITES, ids=lambda one: str(one)[:30])
def test_a_program_on_the_machine_changes_nothing(hub: Hub, method: str, path: str, body: bytes, kind: str) -> None:
    before = root(hub)
    for more in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": f"http://127.0.0.1:{hub.port}"}):
        status, _, text = sent(hub.port, method, path, body, {"Content-Type": kind} | more)
        assert (status, "only the operator" in text) == (401, True), text
    assert root(hub) == before
    assert not (hub.folder / "servers" / "mine.py").exists()
    assert not (hub.folder / "servers" / "mine.json").exists()


def test_a_stranger_behind_a_proxy_that_adds_no_header_changes_nothing(hub: Hub) -> None:
    before = root(hub)
    with silent_proxy(hub) as port:
        for method, path, body, kind in WRITES:
            headers = {"Content-Type": kind, "Host": f"127.0.0.1:{hub.port}", "Connection": "close"}
            assert sent(port, method, path, body, headers)[0] == 401, path
    assert root(hub) == before


def test_a_tool_with_the_default_isolation_changes_nothing(hub: Hub) -> None:
    before = root(hub)
    arguments = orjson.dumps({"port": hub.port, "folder": str(hub.folder)})
    status, _, text = sent(hub.port, "POST", "/trying/change", arguments, {"Content-Type": "application/json"})
    assert status == 200
    assert text.startswith(("answered 401", "answered 429", "refused by the system")), text
    assert root(hub) == before


def test_a_used_link_signs_no_second_browser_in(hub: Hub) -> None:
    path = hub.link().partition(f":{hub.port}")[2]
    status, headers, _ = sent(hub.port, "GET", path)
    assert status == 303 and "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    origin = {"Origin": f"http://127.0.0.1:{hub.port}"}
    assert sent(hub.port, "PUT", "/variables/mine", b"1", {"Cookie": cookie} | origin)[0] in (200, 201)
    status, headers, _ = sent(hub.port, "GET", path)
    assert status in (401, 429) and "set-cookie" not in headers
    signed, _, signature = cookie.rpartition(".")
    # The last characters of base64 hold bits that do not count, the first character none.
    broken = f"{signed}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
    assert sent(hub.port, "PUT", "/variables/mine", b"2", {"Cookie": broken} | origin)[0] == 401


def test_wrong_tokens_do_not_lock_the_operator_out(hub: Hub) -> None:
    # Each worker counts for itself: among so many tokens at least one exceeds the limit of its worker.
    statuses = [
        sent(hub.port, "PUT", "/variables/mine", b"3", {"Authorization": f"Bearer wrong{turn}"})[0]
        for turn in range(MAX_WRONG_TOKENS * len(hub.workers()) + 1)
    ]
    assert set(statuses) <= {401, 429} and statuses.count(401) <= MAX_WRONG_TOKENS * len(hub.workers())
    assert sent(hub.port, "PUT", "/variables/mine", b"3", hub.as_operator())[0] in (200, 201)
    headers = {"Content-Type": FORM, "Sec-Fetch-Site": "same-origin"}
    token = urlencode({"token": hub.token()}).encode()
    assert sent(hub.port, "POST", "/login", token, headers)[0] == 303
    assert sent(hub.port, "GET", hub.login_path())[0] == 303


def test_a_damaged_token_file_proves_no_operator_and_shows_strangers_nothing(hub: Hub) -> None:
    right = hub.as_operator()
    file = hub.folder / "data" / HASH_FILE
    before = file.read_text()
    file.write_text("open sesame")
    try:
        for headers in (right, {"Authorization": "Bearer open sesame"}):
            status, _, text = sent(hub.port, "PUT", "/variables/mine", b"4", headers)
            assert status == 503
            assert str(hub.folder) not in text and HASH_FILE + '"' not in text and "sesame" not in text
        status, _, text = sent(hub.port, "GET", "/variables", b"", {"Accept": "text/html"} | right)
        assert status == 200 and str(file) not in text
        assert str(file) in hub.line_with("cannot check the operator")
    finally:
        file.write_text(before)
    assert sent(hub.port, "PUT", "/variables/mine", b"4", right)[0] in (200, 201)


def test_the_secrets_of_the_operator_can_be_read_by_their_owner_alone(hub: Hub) -> None:
    data = hub.folder / "data"
    assert data.stat().st_mode & 0o777 == 0o700
    for name in (HASH_FILE, TOKEN_FILE, "key"):
        assert (data / name).stat().st_mode & 0o777 == 0o600, name
