"""Someone who reads everything that a hub writes and shows searches for its secrets. Issue 56, 1."""

from __future__ import annotations

import base64
import http.client
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urljoin, urlsplit

import pytest

from tests.checkout import ROOT
from tests.client.bad import Handler, serving
from tests.hubs import BOTH
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

LEAKING = Path(__file__).with_name("leaking_program.py")
SECRETS = {
    "PROGRAM_TOKEN": "zQ7-program/secret+9f2&x=1",
    "HEADER_TOKEN": "kW4-header secret~31".replace(" ", "_"),
    "QUERY_TOKEN": "pL8/query+secret&77",
    "FILE_TOKEN": "vN2-file-secret-58",
    "SHELL_TOKEN": "hT6 shell secret 40",
}
PAGES = (
    "/metrics",
    "/activity.json",
    "/openapi.json",
    "/settings",
    "/audit",
    "/history",
    "/servers",
    "/search?q=secret",
)
MAX_PAGES = 250


def forms_of(value: str) -> set[bytes]:
    """The value as bytes, as a URL and JSON have it, and each alignment of its base64."""
    plain = value.encode()
    found = {plain, quote(value, safe="").encode(), quote_plus(value).encode(), json.dumps(value)[1:-1].encode()}
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"x" * shift + plain)
            found.add(whole[4 if shift else 0 : len(whole) - 4])  # the characters that only the value decides
    return found | {plain.hex().encode(), plain[::-1]}


def found_in(data: bytes) -> list[str]:
    """The names of the secrets that some bytes hold in any of these forms."""
    text = unescape(data.decode("utf-8", "replace")).encode()
    return [name for name, value in SECRETS.items() if any(form in data or form in text for form in forms_of(value))]


def test_the_search_finds_each_form() -> None:
    for name, value in SECRETS.items():
        for data in (
            value.encode(),
            b"<td>" + value.replace("&", "&amp;").encode(),
            base64.b64encode(b"{'k': '" + value.encode() + b"'}"),
            base64.b64encode(b"ab" + value.encode() + b"zz"),
            base64.b64encode(b"abc" + value.encode() + b"z"),
            quote(f"a={value}", safe="").encode(),
        ):
            assert name in found_in(data), (name, data)
    assert not found_in(b"nothing")


def refuse_with_its_key(handler: Handler, body: Any) -> None:
    """Answer a call with an HTTP error that repeats what the request held."""
    handler.send_json({"error": f"refused {handler.headers.get('X-Key')} at {handler.path}"}, 403)


def answer_lists(handler: Handler, body: Any) -> bool:
    if body["method"] != "tools/list":
        return False
    tools = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
    handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": tools})
    return True


def definitions(url: str) -> Mapping[str, str]:
    program = f"mcp+stdio:{shlex.quote(sys.executable)} {shlex.quote(str(LEAKING))}"
    mounts: dict[str, Any] = {
        "leaking": {"address": program, "environment": {"TOKEN": "${PROGRAM_TOKEN}"}},
        "filed": {"address": program, "environment": {"TOKEN": "${FILE_TOKEN}"}},
        "far": {
            "address": f"{url}?key={quote('${QUERY_TOKEN}')}",
            "headers": {"X-Key": "${HEADER_TOKEN}"},
            "era": "legacy",
        },
        "away": {
            "address": f"http://127.0.0.1:9/mcp?key={quote('${QUERY_TOKEN}')}",
            "headers": {"X-Key": "${HEADER_TOKEN}"},
        },
        "api": {
            "kind": "openapi",
            "document": "http://127.0.0.1:9/api.json",
            "base": "http://127.0.0.1:9",
            "headers": {"X-Key": "${HEADER_TOKEN}"},
        },
    }
    found = {f"{name}.json": json.dumps({"kind": "upstream"} | fields) for name, fields in mounts.items()}
    shell = json.dumps({"auto_discover": True, "environment": {"TOKEN": "${SHELL_TOKEN}"}})
    return found | {"shelly.sh": '#!/bin/sh\ntest -n "$TOKEN" || exit 4\necho ran\nexit 3\n', "shelly.mcp.json": shell}


def request(hub: Hub, path: str, body: Any = None, accept: str = "text/html, */*") -> tuple[int, bytes, str]:
    """Send a request of the operator; return its status, its body with its headers, and its content type."""
    headers = hub.as_operator() | {"Accept": accept, "MCP-Protocol-Version": "2025-11-25"}
    data = None if body is None else json.dumps(body)
    with closing(http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)) as connection:
        if data is not None:
            headers["Content-Type"] = "application/json"
        connection.request("GET" if data is None else "POST", path, data, headers)
        answer = connection.getresponse()
        raw = answer.read()
        return answer.status, raw + str(answer.headers).encode(), answer.headers.get("Content-Type", "")


def call(hub: Hub, server: str, tool: str, **arguments: str) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return request(hub, f"/mcp/{server}", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, BOTH)[
        1
    ]


def crawl(hub: Hub) -> Iterator[tuple[str, bytes]]:
    """Yield every page that links lead to from the first one, as HTML and as JSON."""
    waiting, known = ["/", *PAGES], {"/", *PAGES}
    while waiting and len(known) < MAX_PAGES:
        path = waiting.pop(0)
        _, body, kind = request(hub, path)
        yield path, body
        yield f"{path} as JSON", request(hub, path, accept="application/json")[1]
        for link in re.findall(rb'(?:href|action)="([^"]+)"', body) if "html" in kind else ():
            target = urlsplit(urljoin(path, unescape(link.decode())))
            place = target.path + (f"?{target.query}" if target.query else "")
            is_skipped = target.netloc or target.path.startswith(("/static", "/login", "/docs", "/activity/events"))
            if not is_skipped and place not in known:
                known.add(place)
                waiting.append(place)


def command(hub: Hub, *words: str, given: str | None = None) -> bytes:
    """Run a command on the data of the hub; return all that it prints."""
    line = [sys.executable, "-m", "patchbay", *words, "--data", str(hub.folder / "data")]
    data = None if given is None else given.encode()
    done = subprocess.run(line, input=data, capture_output=True, cwd=ROOT, timeout=BOUND)
    return bytes(done.stdout + done.stderr)


def wait_for_answer(hub: Hub, server: str, tool: str, word: bytes) -> bytes:
    """Call a tool until its answer has a word; return the answer."""
    found: list[bytes] = []

    def is_answered() -> bool:
        found.append(call(hub, server, tool))
        return word in found[-1]

    until(is_answered, lambda: found[-1])
    return found[-1]


def use_everything(hub: Hub) -> Iterator[tuple[str, bytes]]:
    """Call every server of the hub; yield what came back."""
    for server, tool, word in (
        ("leaking", "works", b"worked"),
        ("filed", "works", b"worked"),
        ("far", "x", b"403"),
        ("shelly", "shelly", b"exit"),
    ):
        yield f"a call of {server}", wait_for_answer(hub, server, tool, word)
    for tool in ("fails", "ends", "works"):
        yield f"{tool} of leaking", call(hub, "leaking", tool)
        yield f"{tool} of filed", call(hub, "filed", tool, text="${FILE_TOKEN} ${PROGRAM_TOKEN}")
    for server in ("away", "api"):
        yield server, call(hub, server, "x")


def list_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_relative_to(folder / "given"):
            yield str(file.relative_to(folder)), file.read_bytes()


def list_processes(pid: int) -> Iterator[tuple[str, bytes]]:
    """The command line of each process of this machine, as a list of processes shows it to every user."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield f"process {file.parent.name}", file.read_bytes()
        except OSError:
            continue


def test_no_surface_of_a_hub_shows_a_secret(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "FILE_TOKEN").write_text(SECRETS["FILE_TOKEN"])
    servers = tmp_path / "servers"
    servers.mkdir()
    options = ("--secrets-dir", str(tmp_path / "given"), "--log-level", "debug", "--activity-contents", "keep")
    surfaces: list[tuple[str, bytes]] = []
    with ExitStack() as stack:
        server = stack.enter_context(serving())(refuse_with_its_key, answer_lists)
        hub = stack.enter_context(running(tmp_path, *options, "--audit", "on", "--servers", str(servers)))
        for name in SECRETS:
            if name != "FILE_TOKEN":
                surfaces.append((f"set {name}", command(hub, "secret", "set", name, "-", given=SECRETS[name])))
        for file, text in definitions(server.url).items():
            (servers / file).write_text(text)
        surfaces += use_everything(hub)
        used = {headers["x-key"] for _, _, headers in server.got if "x-key" in headers}
        assert used == {SECRETS["HEADER_TOKEN"]}, "the server has the secret"
        surfaces += list_processes(hub.process.pid)
        surfaces.append(("rotate", command(hub, "secret", "rotate", "HEADER_TOKEN", "-", given="another-value")))
        surfaces += use_everything(hub)
        surfaces += crawl(hub)
        for words in (("secret", "list"), ("audit", "export"), ("pins", "export"), ("logs",), ("doctor",), ("list",)):
            surfaces.append((" ".join(words), command(hub, *words)))
        assert b"PROGRAM_TOKEN" in dict(surfaces)["secret list"]
        assert len(surfaces) > 100
    surfaces.append(("log", "".join(hub.lines).encode()))
    surfaces += list_files(tmp_path)
    shown = {where: names for where, data in surfaces if (names := found_in(data))}
    assert not shown, shown
