"""`patchbay nodes`: which hubs live, and what they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay import __version__
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import running_nodes
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "patchbay", "nodes", *words], capture_output=True, text=True)


def test_the_living_nodes_are_listed_with_their_load_until_they_die(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """36.4: two nodes, a listener at the second one; then the first one is killed."""
    address = postgresql.new_schema()
    with running_nodes(tmp_path, address, 2) as nodes:
        options = ["--store", address, "--key-file", str(tmp_path / "key"), "--data", str(tmp_path / "command")]

        def listed() -> list[dict[str, Any]]:
            done = run("--json", *options)
            assert done.returncode == 0, done.stderr
            return [json.loads(line) for line in done.stdout.splitlines()]

        found = until(lambda: (now := listed()) and len(now) == 2 and now, "two nodes are listed")
        assert {one["version"] for one in found} == {__version__}
        assert {one["host"] for one in found} == {os.uname().nodename}
        work = [name for one in found for name in one["work"]]
        assert "servers folder" in work and len(set(work)) == len(work), "one node does each piece of work"
        until(lambda: all(one["lag_ms"] is not None for one in listed()), "the lag of the bus is measured")
        assert all(0 <= one["lag_ms"] < BOUND * 1000 for one in listed())
        page = httpx2.get(f"http://127.0.0.1:{nodes.ports[0]}/nodes.json", headers=nodes.hubs[0].as_operator())
        assert [one["process"] for one in page.json()["nodes"]] == [one["process"] for one in listed()]
        metrics = httpx2.get(f"http://127.0.0.1:{nodes.ports[0]}/metrics", headers=nodes.hubs[0].as_operator()).text
        assert "patchbay_bus_lag_seconds" in metrics
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        known = {"Accept": "application/json, text/event-stream", **headers}
        url = f"http://127.0.0.1:{nodes.ports[1]}/mcp/echo"
        with httpx2.stream("POST", url, json=body, headers=known, timeout=BOUND) as answer:
            assert answer.status_code == 200
            until(lambda: sorted(one["listeners"] for one in listed()) == [0, 1], "the listener is counted")
        nodes.hubs[0].process.send_signal(signal.SIGKILL)
        until(lambda: len(listed()) == 1, "the killed node is not listed")
        assert "version" in run(*options).stdout


def test_a_hub_on_one_machine_has_no_nodes(tmp_path: Path) -> None:
    """36.4"""
    done = run("--data", str(tmp_path))
    assert (done.returncode, "on one machine" in done.stderr) == (2, True)
