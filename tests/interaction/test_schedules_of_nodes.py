"""Schedules of three hubs on one PostgreSQL: each time once, also with wrong clocks and a killed node."""

from __future__ import annotations

import json
import os
import signal
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import Nodes
from tests.serving.running import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

DESK = '''
import time


def beat() -> str:
    """Do nothing for a moment."""
    return "done"


def work(context) -> str:
    """Work for a while, the first time."""
    key = "begun"
    if context.state.get(key) is None:
        context.state[key] = True
        time.sleep(1000)
    return "done"


def has_begun(context) -> bool:
    """Whether the work has begun for the first time."""
    return context.state.get("begun") is not None
'''
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients without TLS: each of them would read all certificates of the machine, and these look often."""

RARELY = "0 0 29 2 *"
SHIFTED_CLOCK = """
import os, time
_real, _shift = time.time, float(os.environ["PATCHBAY_TEST_CLOCK_SHIFT"])
time.time = lambda: _real() + _shift
"""


def write_desk(folder: Path, **tools: dict[str, Any]) -> None:
    (folder / "desk.py").write_text(DESK)
    (folder / "desk.mcp.json").write_text(json.dumps({"timeout": 2000, "tools": tools}))


def told(hub: Hub, path: str) -> Any:
    """The JSON at a path, as a node tells its operator."""
    url = f"http://127.0.0.1:{hub.port}{path}"
    return httpx2.get(url, headers=hub.as_operator(), timeout=BOUND, verify=NO_CERTIFICATES).json()


def is_begun(hub: Hub) -> bool:
    """Whether the work has begun, as its server tells a client."""
    message, headers = modern_request("tools/call", {"name": "has_begun", "arguments": {}})
    known = headers | hub.as_operator() | {"Accept": "application/json"}
    answer = httpx2.post(f"http://127.0.0.1:{hub.port}/mcp/desk", json=message, headers=known, timeout=BOUND)
    return bool(answer.json()["result"]["content"][0]["text"] == "true")


def runs(hub: Hub, tool: str) -> list[dict[str, Any]]:
    """The runs of a tool, as one node tells them."""
    found = told(hub, "/schedules.json")["schedules"]
    return next((list(one["runs"]) for one in found if one["tool"] == tool), [])


def test_three_nodes_whose_clocks_are_hours_apart_make_each_run_once(
    tmp_path: Path, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """36.1"""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "clock"))
    nodes = Nodes(tmp_path, postgresql.new_schema())
    nodes.servers.mkdir()
    with ExitStack() as stack:
        for hours in (-1, 0, 1):
            monkeypatch.setenv("PATCHBAY_TEST_CLOCK_SHIFT", str(hours * 3600))
            nodes.start(stack)
        write_desk(nodes.servers, beat={"schedule": "* * * * * *"})
        until(lambda: len(runs(nodes.hubs[0], "beat")) >= 8, "eight runs")
        write_desk(nodes.servers, beat={"schedule": RARELY})
        until(lambda: told(nodes.hubs[1], "/schedules.json")["schedules"][0]["schedule"] == RARELY, "the end")
        until(lambda: all(one["ended"] for one in runs(nodes.hubs[2], "beat")), "all ends")
        found = runs(nodes.hubs[2], "beat")
        due = [one["due"] for one in found]
        assert due == [due[0] - second for second in range(len(due))], "each second once, and none left out"
        assert {one["outcome"] for one in found} == {"ok"}

        def called() -> int:
            records = told(nodes.hubs[0], "/activity.json?limit=100")["records"]
            return sum(one["way"] == "schedule" for one in records)

        until(lambda: called() == len(due), lambda: f"{called()} calls for {len(due)} runs")


def test_a_run_whose_node_is_killed_is_made_by_another_one_if_the_tool_may_be_repeated(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """36.1"""
    nodes = Nodes(tmp_path, postgresql.new_schema())
    nodes.servers.mkdir()
    with ExitStack() as stack:
        for _ in range(3):
            nodes.start(stack)
        repeatable = {"schedule": "* * * * * *", "annotations": {"idempotentHint": True}}
        write_desk(nodes.servers, work=repeatable, has_begun={})
        begun = until(lambda: runs(nodes.hubs[0], "work"), "a run begins")[-1]
        # The run is claimed before its tool runs: without this mark, the next attempt would be the one that waits.
        until(lambda: is_begun(nodes.hubs[0]), "the work begins")
        process = int(begun["node"].rpartition(":")[2])
        (own,) = (hub for hub in nodes.hubs if process in hub.workers())
        os.kill(own.process.pid, signal.SIGKILL)
        os.kill(process, signal.SIGKILL)
        other = next(hub for hub in nodes.hubs if hub is not own)

        def done() -> list[dict[str, Any]]:
            return [one for one in runs(other, "work") if one["due"] == begun["due"] and one["ended"]]

        (again,) = until(done, "its end")
        assert (again["outcome"], again["attempt"], again["message"]) == ("ok", 2, "done")
        assert again["node"] != begun["node"]
