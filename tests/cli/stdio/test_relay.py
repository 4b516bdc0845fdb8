"""`patchbay stdio NAME` beside a running hub: the hub does the work, in every revision, and may start again."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.client.stdio import StdioServerParameters

from patchbay import exit_codes
from patchbay.cli.running_hub import RunningHub
from patchbay.cli.stdio.relay import Relay
from patchbay.errors import NO_SESSION, HeaderMismatch
from tests.checkout import ROOT
from tests.hubs import modern_request
from tests.interaction.peers import texts
from tests.interaction.programs import free_port, plain_environment
from tests.serving.running import Hub, running
from tests.serving.test_stdio_process import OPEN, Child, started
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

NOTES = '''"""Notes."""

import os
import time


def look() -> str:
    """Say where this runs."""
    return os.environ["HOME"]


def ask(context) -> str:
    """Ask the caller."""
    form = {"type": "object", "properties": {"which": {"type": "string"}}, "required": ["which"]}
    return str(context.elicit("Which?", form)["content"]["which"])


def hang(context) -> str:
    """Wait to be cancelled."""
    done = 0
    while True:
        time.sleep(0.02)
        done += 1
        context.progress(done)
'''

HEADERS = {
    "tools": {
        "search": {
            "description": "Search.",
            "function": "search",
            "inputSchema": {
                "type": "object",
                "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
                "required": ["region"],
            },
        },
        "count": {
            "description": "Count.",
            "function": "count",
            "inputSchema": {
                "type": "object",
                "properties": {"number": {"type": "integer", "x-mcp-header": "Number"}},
                "required": ["number"],
            },
        },
    }
}
SEARCH = '''"""Searches."""


def search(region: str) -> str:
    """Search."""
    return f"found in {region}"


def count(number: int) -> str:
    """Count."""
    return f"counted {number}"
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hub")
    (made / "servers").mkdir()
    (made / "servers" / "notes.py").write_text(NOTES)
    (made / "servers" / "far.py").write_text(SEARCH)
    (made / "servers" / "far.mcp.json").write_text(json.dumps(HEADERS))
    return made


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    with running(folder) as made:
        yield made


def beside(folder: Path, server: str, *options: str) -> Any:
    """`patchbay stdio` on the data folder of the hub."""
    return started(folder, server, "--data", str(folder / "data"), *options)


def say(child: Child, method: str, params: dict[str, Any] | None = None, id: int = 1) -> Any:
    """Send a request of 2026-07-28 and return its answer."""
    body, _ = modern_request(method, params, id=id)
    return child.ask(method, body["params"], id)


def test_the_tools_run_in_the_running_hub(folder: Path, hub: Hub) -> None:
    with beside(folder, "notes") as child:
        assert child.ask("initialize", OPEN)["result"]["serverInfo"]["name"] == "notes"
        assert "result" in child.ask("tools/call", {"name": "look", "arguments": {}}, 2)
        assert child.processes() == {child.process.pid}
        code, rest, _ = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")


def test_a_question_of_a_tool_reaches_the_client(folder: Path, hub: Hub) -> None:
    with beside(folder, "notes") as child:
        child.ask("initialize", {**OPEN, "capabilities": {"elicitation": {}}})
        child.send("tools/call", {"name": "ask", "arguments": {}}, 2)
        question = child.read()
        assert question["method"] == "elicitation/create"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"which": "both"}}}
        assert child.process.stdin is not None
        child.process.stdin.write(json.dumps(answer).encode() + b"\n")
        child.process.stdin.flush()
        assert child.until(lambda message: message.get("id") == 2)["result"]["content"][0]["text"] == "both"


def test_a_session_hears_of_a_changed_server(folder: Path, hub: Hub) -> None:
    (folder / "servers" / "moving.py").write_text('def one() -> str:\n    """One."""\n    return "1"\n')
    with beside(folder, "moving") as child:
        child.ask("initialize", OPEN)
        (folder / "servers" / "moving.py").write_text('def two() -> str:\n    """Two."""\n    return "2"\n')
        child.until(lambda message: message.get("method") == "notifications/tools/list_changed")
        assert [tool["name"] for tool in child.ask("tools/list", {}, 3)["result"]["tools"]] == ["two"]


def cancelled_calls(hub: Hub) -> int:
    """How many calls the hub has recorded as cancelled."""
    return sum(one["outcome"] == "cancelled" for one in json.loads(hub.get("/activity.json?tool=hang")[1])["records"])


@pytest.mark.parametrize("is_modern", [True, False])
def test_a_cancelled_call_ends_in_the_hub(folder: Path, hub: Hub, is_modern: bool) -> None:
    params: dict[str, Any] = {"name": "hang", "arguments": {}, "_meta": {"progressToken": 7}}
    known = cancelled_calls(hub)
    with beside(folder, "notes") as child:
        if is_modern:
            params["_meta"] |= modern_request("tools/call")[0]["params"]["_meta"]
        else:
            child.ask("initialize", OPEN)
        child.send("tools/call", params, 5)
        child.until(lambda message: message.get("method") == "notifications/progress")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert child.process.stdin is not None
        child.process.stdin.write(json.dumps(cancel).encode() + b"\n")
        child.process.stdin.flush()
        until(lambda: cancelled_calls(hub) == known + 1, "the hub records a cancelled call")


def test_a_modern_call_repeats_its_arguments_in_headers(folder: Path, hub: Hub) -> None:
    """A pipe has no headers; the hub requires those that the schema of the tool names."""
    with beside(folder, "far") as child:
        answer = say(child, "tools/call", {"name": "search", "arguments": {"region": "Zürich"}})
        assert answer["result"]["content"][0]["text"] == "found in Zürich"


def test_integers_beyond_64_bits_reach_the_hub_exactly(folder: Path, hub: Hub) -> None:
    """As an argument that a header repeats, and as the id of a request, which gets one answer."""
    large = 10**30
    with beside(folder, "far") as child:
        body, _ = modern_request("tools/call", {"name": "count", "arguments": {"number": large}}, id=large)
        assert child.process.stdin is not None and child.process.stdout is not None
        child.process.stdin.write(json.dumps(body).encode() + b"\n")
        child.process.stdin.flush()
        answer = json.loads(child.process.stdout.readline())
        assert answer["id"] == large
        assert answer["result"]["content"][0]["text"] == f"counted {large}"
        code, rest, _ = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")


def test_many_calls_run_at_a_time(folder: Path, hub: Hub) -> None:
    with beside(folder, "notes") as child:
        child.ask("initialize", OPEN)
        for id in range(10, 40):
            child.send("tools/call", {"name": "look", "arguments": {}}, id)
        found = {child.until(lambda message: "id" in message)["id"] for _ in range(30)}
        assert found == set(range(10, 40))


def test_bad_input_gets_the_errors_of_a_pipe(folder: Path, hub: Hub) -> None:
    with beside(folder, "notes", "--body-limit", "2000") as child:
        assert child.process.stdin is not None
        child.process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method"\n' + b"x" * 3000 + b'\n{"id": 3}\n')
        child.process.stdin.flush()
        codes = [child.read()["error"]["code"] for _ in range(3)]
        assert codes == [-32700, -32600, -32600]
        assert child.ask("initialize", OPEN)["result"]["serverInfo"]["name"] == "notes"


def test_an_unknown_server_is_named_before_any_input(folder: Path, hub: Hub) -> None:
    with beside(folder, "nots") as child:
        code, out, log = child.ends()
    assert (code, out) == (exit_codes.USAGE, b"")
    assert "nots" in log
    assert "notes" in log


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_python_sdk_works_beside_a_running_hub(folder: Path, hub: Hub, mode: str) -> None:
    options = ["--data", str(folder / "data"), "--servers", str(folder / "servers")]
    command = ["-m", "patchbay", "stdio", "notes", *options]
    environment = plain_environment(folder)
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)

    async def conversation() -> tuple[str, list[str]]:
        async with mcp.Client(parameters, mode=mode, read_timeout_seconds=BOUND) as client:
            said = texts((await client.call_tool("look", {})).content)
            return said, [tool.name for tool in (await client.list_tools()).tools]

    said, tools = asyncio.run(conversation())
    assert said
    assert tools == ["look", "ask", "hang"]


def test_a_call_waits_for_a_hub_that_starts_again_on_another_port(tmp_path: Path) -> None:
    """The session goes on."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "notes.py").write_text(NOTES)
    with running(tmp_path, "--port", str(free_port())) as first:
        child_of = beside(tmp_path, "notes")
        child = child_of.__enter__()
        child.ask("initialize", OPEN)
        first.end()
    try:
        child.send("tools/call", {"name": "look", "arguments": {}}, 2)
        with running(tmp_path, "--port", str(free_port())):
            assert "result" in child.until(lambda message: message.get("id") == 2)
    finally:
        child_of.__exit__(None, None, None)


def test_a_hub_that_stays_away_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    out: list[bytes] = []
    gone = RunningHub(f"http://127.0.0.1:{free_port()}", "127.0.0.1", 1, tmp_path)
    relay = Relay(lambda ending: None, gone, "notes", out.append)
    relay.handle(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    relay.finish(BOUND)
    error = json.loads(out[0])["error"]
    assert "has stopped: start it again (`patchbay serve`)" in error["message"]


class LeavingHub(HTTPServer):
    """A hub that stops just before its first refusal, so that it accepts no later connection."""

    def __init__(self, port: int, keeps_sessions: bool) -> None:
        self.is_there = True
        self.keeps_sessions = keeps_sessions
        self.streams = 0
        super().__init__(("127.0.0.1", port), LeavingHubRequest)
        self.running = RunningHub(f"http://127.0.0.1:{self.server_port}", "127.0.0.1", 1, Path())
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while self.is_there:
            self.handle_request()
        self.server_close()


class LeavingHubRequest(BaseHTTPRequestHandler):
    """One request to a LeavingHub."""

    server: LeavingHub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["method"] == "initialize":
            self._answer(200, {"id": body["id"], "result": {"protocolVersion": "2025-11-25"}})
        elif "id" not in body:
            self._answer(202, None)
        elif "mcp-method" in self.headers:
            self._refuse({"code": HeaderMismatch.code, "message": "Mcp-Param-Region is missing"})
        elif self.server.keeps_sessions:
            self._answer(200, {"id": body["id"], "result": {}})
        else:
            self._refuse({"code": -32001, "message": NO_SESSION})

    def do_GET(self) -> None:
        self.server.streams += 1
        self._refuse({"code": -32001, "message": NO_SESSION})

    def _refuse(self, error: Any) -> None:
        self.server.is_there = False
        self.server.server_close()
        self._answer(404, {"id": None, "error": error})

    def _answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps({"jsonrpc": "2.0", **body}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("mcp-session-id", "kept" if self.server.keeps_sessions else "forgotten")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


LOOK: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "look", "arguments": {}}}


def opened(out: list[bytes]) -> tuple[Relay, list[LeavingHub]]:
    """A relay with a session at a hub that leaves; the relay finds the last hub of the list."""
    hubs = [LeavingHub(0, keeps_sessions=False)]
    relay = Relay(lambda ending: hubs[-1].running, hubs[0].running, "notes", out.append)
    relay.handle(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPEN}).encode())
    assert "result" in json.loads(out.pop())
    return relay, hubs


def test_a_call_gets_an_error_when_the_hub_stops_before_the_session_is_opened_again() -> None:
    """The next call opens the session at the hub that runs then."""
    out: list[bytes] = []
    relay, hubs = opened(out)
    relay.handle(json.dumps(LOOK).encode())
    relay.finish(BOUND)
    hubs[0].thread.join(BOUND)
    assert "does not answer" in json.loads(out.pop())["error"]["message"]
    hubs.append(LeavingHub(0, keeps_sessions=True))
    relay.handle(json.dumps(LOOK).encode())
    relay.finish(BOUND)
    answer = json.loads(out.pop())
    hubs[1].is_there = False
    relay.close(BOUND)
    assert answer["result"] == {}
    hubs[1].thread.join(BOUND)


def test_a_call_gets_an_error_when_the_hub_stops_before_it_lists_the_tool() -> None:
    out: list[bytes] = []
    relay, hubs = opened(out)
    relay.handle(json.dumps(modern_request("tools/call", LOOK["params"])[0]).encode())
    relay.finish(BOUND)
    hubs[0].thread.join(BOUND)
    assert "does not answer" in json.loads(out.pop())["error"]["message"]


def test_notifications_come_from_the_next_hub_when_one_stops_before_the_session_is_opened_again() -> None:
    relay, hubs = opened([])
    relay.handle(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    hubs[0].thread.join(BOUND)
    hubs.append(LeavingHub(0, keeps_sessions=True))
    until(lambda: hubs[1].streams)
    hubs[1].thread.join(BOUND)
    relay.close(BOUND)
