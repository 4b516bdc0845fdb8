"""Calls that survive their connection: raw connections that end in the middle of a call, at one hub and at three."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import running_nodes
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

Json = dict[str, Any]

STEPS = 5

DEFINITION = '''"""A server whose calls are counted in files."""

import os
import secrets
import time
from pathlib import Path

FOLDER = Path({folder!r})


def work(context, name: str, steps: int) -> str:
    """Go on step by step; each step waits for a file, if the folder asks for that."""
    run = secrets.token_hex(8)
    (FOLDER / f"{{name}}.{{run}}").touch()
    for step in range(1, steps + 1):
        context.progress(step, steps, run)
        while not (FOLDER / f"{{name}}.go").exists() and step == 2:
            time.sleep(0.01)
    return run
'''


def prepare(folder: Path) -> Path:
    """Make a servers folder with the server, and return the folder of its files."""
    counted = folder / "counted"
    counted.mkdir()
    (folder / "servers").mkdir()
    (folder / "servers" / "steps.py").write_text(DEFINITION.format(folder=str(counted)))
    settings = {"auto_discover": True, "timeout": 100, "writes": [str(counted)]}
    (folder / "servers" / "steps.mcp.json").write_text(json.dumps(settings))
    return counted


class Setup:
    """Hubs that serve the same server, and the folder where it counts its runs."""

    def __init__(self, hubs: list[Hub], counted: Path) -> None:
        self.hubs = hubs
        self.counted = counted
        until(lambda: all(hub.get("/mcp/steps")[0] != 404 for hub in hubs), "all hubs serve it")

    def runs(self, name: str) -> int:
        """How often the tool has run under this name."""
        return len([path for path in self.counted.glob(f"{name}.*") if path.suffix != ".go"])


@pytest.fixture(scope="module", params=["one hub", "three nodes"])
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer
) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("surviving")
    counted = prepare(folder)
    if request.param == "one hub":
        with running(folder, "--servers", str(folder / "servers")) as hub:
            yield Setup([hub], counted)
    else:
        with running_nodes(folder, postgresql.new_schema(), 3) as nodes:
            yield Setup(nodes.hubs, counted)


class Caller:
    """A client of one call, which may end its connection at any event and come back to another hub."""

    def __init__(self, setup: Setup, name: str, id: str, **arguments: Any) -> None:
        self.setup = setup
        self.id = id
        self.arguments = {"name": name, "steps": STEPS, **arguments}
        self.events: list[tuple[str, Json]] = []

    def begin(self, node: int, json_only: bool = False) -> http.client.HTTPResponse:
        """Send the call to a hub, from the last event that this client has."""
        after = int(self.events[-1][0].rpartition("-")[2]) if self.events else 0
        meta = {"io.patchbay/call": self.id, "io.patchbay/after": after, "progressToken": f"{self.id} {after}"}
        params = {"name": "work", "arguments": self.arguments}
        body, headers = modern_request("tools/call", params, meta=meta, id=after + 100)
        hubs = self.setup.hubs
        self.connection = http.client.HTTPConnection("127.0.0.1", hubs[node % len(hubs)].port, timeout=BOUND)
        self.connection.connect()
        accepted = "application/json" + ("" if json_only else ", text/event-stream")
        known = {"Content-Type": "application/json", "Accept": accepted, **headers}
        self.connection.request("POST", "/mcp/steps", json.dumps(body), known)
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        return self.answer

    def read(self, answer: http.client.HTTPResponse, most: int = 1000) -> None:
        """Read events until there are so many, or until the answer."""
        id = ""
        while len(self.events) < most and not answer.closed:
            line = answer.readline().decode().strip()
            if line.startswith("id: "):
                id = line.removeprefix("id: ")
            elif line.startswith("data: "):
                self.events.append((id, json.loads(line.removeprefix("data: "))))
                if "method" not in self.events[-1][1]:
                    self.leave()

    def read_json(self) -> Json:
        """Return the answer that is no stream."""
        found: Json = json.loads(self.answer.read())
        self.leave()
        return found

    def die(self) -> None:
        """End the connection as the kernel does for a killed process that has not read everything: with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.leave()

    def leave(self) -> None:
        """End the connection."""
        self.answer.close()
        self.connection.close()
        self.socket.close()

    def go(self) -> None:
        """Let the tool go on behind its second step."""
        (self.setup.counted / f"{self.arguments['name']}.go").touch()


def test_a_client_that_dies_in_the_middle_comes_back_to_another_hub_and_gets_the_same_events(setup: Setup) -> None:
    """36.2: a hundred clients end their connection after the first event, in the middle of the call."""

    def come_back(number: int) -> None:
        caller = Caller(setup, f"call{number}", str(uuid4()))
        caller.read(caller.begin(number), most=1)
        caller.die()
        answer = caller.begin(number + 1)
        caller.go()
        caller.read(answer)
        run = caller.events[-1][1]["result"]["content"][0]["text"]
        progress = [event["params"] for _, event in caller.events[:-1]]
        assert [(one["progress"], one["message"]) for one in progress] == [(step, run) for step in range(1, STEPS + 1)]
        assert [int(id.rpartition("-")[2]) for id, _ in caller.events] == list(range(1, STEPS + 2))
        assert [one["progressToken"].split()[1] for one in progress] == ["0", "1", "1", "1", "1"]
        assert caller.events[-1][1]["id"] == 101
        assert setup.runs(f"call{number}") == 1

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(come_back, range(100)))


def test_a_call_that_has_ended_is_read_again_and_does_not_run_again(setup: Setup) -> None:
    """36.2: the whole stream, and the answer alone for a caller that wants JSON."""
    first = Caller(setup, "ended", str(uuid4()))
    first.go()
    first.read(first.begin(0))
    again = Caller(setup, "ended", first.id)
    again.read(again.begin(1))
    assert [(id, one.get("result")) for id, one in again.events] == [
        (id, one.get("result")) for id, one in first.events
    ]
    alone = Caller(setup, "ended", first.id)
    alone.begin(2, json_only=True)
    assert alone.read_json()["result"] == first.events[-1][1]["result"]
    assert setup.runs("ended") == 1


def test_two_that_send_a_call_at_the_same_time_get_one_execution(setup: Setup) -> None:
    """36.2"""
    id = str(uuid4())
    callers = [Caller(setup, "together", id) for _ in range(6)]
    callers[0].go()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda pair: pair[1].read(pair[1].begin(pair[0])), enumerate(callers)))
    assert len({str(caller.events[-1][1]["result"]) for caller in callers}) == 1
    assert setup.runs("together") == 1


def test_an_id_with_other_arguments_is_refused_and_runs_nothing(setup: Setup) -> None:
    """36.2"""
    first = Caller(setup, "mine", str(uuid4()))
    first.go()
    first.read(first.begin(0))
    other = Caller(setup, "other", first.id)
    assert (other.begin(1).status, setup.runs("other")) == (400, 0)
    assert "new UUID" in other.read_json()["error"]["message"]


@pytest.mark.parametrize("id", ["7", "", 7, None, ["x"]])
def test_an_id_that_is_no_uuid_is_refused(setup: Setup, id: Any) -> None:
    """36.2: null counts as no id."""
    caller = Caller(setup, "unnamed", id)
    caller.go()
    answer = caller.begin(0)
    assert answer.status == (200 if id is None else 400)
    assert id is None or "has to be a UUID" in caller.read_json()["error"]["message"]
    caller.leave()


def test_a_call_is_cancelled_by_its_id_through_another_hub(setup: Setup) -> None:
    """36.2: the end of its connection does not cancel it."""
    caller = Caller(setup, "cancelled", str(uuid4()))
    answer = caller.begin(0)
    caller.read(answer, most=1)
    meta = {"io.patchbay/call": caller.id}
    body, headers = modern_request("notifications/cancelled", {"requestId": 100, "reason": "enough"}, meta=meta)
    del body["id"]
    connection = http.client.HTTPConnection("127.0.0.1", setup.hubs[-1].port, timeout=BOUND)
    known = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    connection.request("POST", "/mcp/steps", json.dumps(body), known)
    assert connection.getresponse().status == 202
    connection.close()
    caller.read(answer)
    assert caller.events[-1][1]["error"]["message"] == "the call was cancelled"
