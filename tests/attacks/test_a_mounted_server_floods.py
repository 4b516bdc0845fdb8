"""A mounted server floods the hub: it costs little processor time, and other servers are called as before."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.serving.running import ONE_WORKER, Hub, Worker, running
from tests.waiting import BOUND, until

FLOODING = Path(__file__).with_name("flooding_server.py")
WAYS = ("changes", "messages", "requests", "noise", "blank", "errors")
SHARE = 0.5
"""The share of a core that a hub may spend on one flooding server. Without a limit it spends a whole one.

What a second may bring is limited in messages, so that a slow machine spends a larger share: 0.26 was seen."""


def called(hub: Hub, server: str) -> str:
    """Return the answer of a server's tool."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ping", "arguments": {}}}
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    with urlopen(
        Request(f"http://127.0.0.1:{hub.port}/mcp/{server}", json.dumps(asked).encode(), headers), timeout=BOUND
    ) as answer:
        return str(json.load(answer)["result"]["content"][0]["text"])


def spent(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("way", WAYS)
def test_a_flood_costs_a_small_part_of_a_core(tmp_path: Path, way: str) -> None:
    """Processor time over elapsed time: a busy machine makes it smaller, never larger."""
    (tmp_path / "servers").mkdir()
    begun = tmp_path / "begun"
    for name, how in (("flooding", way), ("quiet", "quiet")):
        mount = {
            "kind": "upstream",
            "address": f"mcp+stdio:{sys.executable} -S {FLOODING} {how} {begun}",
            "era": "legacy",
            "writes": [str(tmp_path)],
        }
        (tmp_path / "servers" / f"{name}.json").write_text(json.dumps(mount))
    # One worker: each worker has its own connection to a mounted server, and pays for its own flood.
    with running(tmp_path, "--timeout", str(BOUND), *ONE_WORKER) as hub:
        until(begun.exists, "the flood has begun")
        hub.line_with("the upstream quiet answers")
        worker, pause = Worker(hub).pid, threading.Event()
        until(lambda: called(hub, "quiet") == "pong", "the other server is called")
        end = time.monotonic() + BOUND
        while True:  # the burst first, then the permanent cost
            since, before = time.monotonic(), spent(worker)
            pause.wait(2)
            share = (spent(worker) - before) / (time.monotonic() - since)
            if share < SHARE or time.monotonic() > end:
                break
        assert share < SHARE, f"{share:.0%} of a core"
        assert called(hub, "quiet") == "pong"
