"""Tasks when the hub ends under them: they get the time of the drain, and no task stays "working"."""

from __future__ import annotations

import http.client
import json
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import TASKS
from patchbay.protocol.tasks.tasks import GONE, STOPPED
from tests.hubs import modern_request
from tests.serving.running import Hub, alive, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


def send(hub: Hub, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request to the server of all examples, from a client that knows tasks."""
    body, headers = modern_request(method, params, {"extensions": {TASKS: {}}})
    headers |= {"Content-Type": "application/json", "Accept": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        connection.request("POST", "/mcp/everything", json.dumps(body), headers)
        return dict(json.loads(connection.getresponse().read())["result"])
    finally:
        connection.close()


def started(folder: Path, *options: str) -> AbstractContextManager[Hub]:
    """A hub on which the server of all examples is switched on."""
    return running(folder, "--enable", "everything", *options)


def begin(hub: Hub, seconds: float) -> str:
    arguments = {"seconds": seconds, "label": "This"}
    return str(send(hub, "tools/call", {"name": "slow_compute", "arguments": arguments})["taskId"])


def get(hub: Hub, id: str) -> dict[str, Any]:
    return send(hub, "tasks/get", {"taskId": id})


def test_tasks_get_the_time_of_the_drain_and_are_failed_then(tmp_path: Path) -> None:
    with started(tmp_path, "--drain", "2") as hub:
        short, long = begin(hub, 0.7), begin(hub, 600)
        assert hub.end(signal.SIGTERM) == 0
    with started(tmp_path) as hub:
        assert get(hub, short)["result"]["content"][0]["text"] == "This took 0.7 seconds."
        lost = get(hub, long)
        assert (lost["status"], lost["statusMessage"], lost["error"]["message"]) == ("failed", STOPPED, STOPPED)


def test_a_hub_without_tasks_ends_at_once(tmp_path: Path) -> None:
    with started(tmp_path, "--drain", "600") as hub:
        id = begin(hub, 0)
        until(lambda: get(hub, id)["status"] == "completed", "the end of the task")
        assert hub.end(signal.SIGTERM) == 0


def test_a_task_whose_process_was_killed_is_failed_with_a_reason(tmp_path: Path) -> None:
    with started(tmp_path) as hub:
        id, workers = begin(hub, 600), hub.workers()
        for pid in (hub.process.pid, *workers):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(alive, workers)), "the end of the workers")
    with started(tmp_path) as hub:
        until(lambda: get(hub, id)["status"] != "working", "the end of the task")
        lost = get(hub, id)
        assert (lost["status"], lost["statusMessage"], lost["error"]["code"]) == ("failed", GONE, -32603)


def test_every_worker_serves_every_task(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as hub:
        ids = [begin(hub, 600) for _ in range(6)]
        for id in ids:
            assert get(hub, id)["status"] == "working"
            assert send(hub, "tasks/cancel", {"taskId": id})["resultType"] == "complete"
        for id in ids:
            until(lambda id=id: get(hub, id)["status"] == "cancelled", "the end of the task")  # type: ignore[misc]
        assert hub.end(signal.SIGTERM) == 0
