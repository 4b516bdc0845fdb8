"""Jobs of hubs on one PostgreSQL: any worker runs them, any node shows and cancels them, a killed worker loses none."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay.access.principals import LOCAL
from patchbay.activation import TASKS
from patchbay.catalogue.catalogue import Catalogue
from patchbay.protocol.jobs import jobs
from patchbay.protocol.jobs.records import Job
from patchbay.protocol.tasks.methods import MAX_TASKS_PER_STREAM
from tests.checkout import ROOT
from tests.databases import PostgresqlServer
from tests.hubs import BOTH, modern_request
from tests.hubs import Hub as InProcessHub
from tests.interaction.nodes import Nodes
from tests.serving.running import Hub, marks
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

JOBS = int(os.environ.get("PATCHBAY_JOBS", "20"))
"""Jobs that run when their worker is killed."""

DESK = '''
import time
from pathlib import Path


def _work(number: int, folder: str) -> str:
    path = Path(folder) / str(number)
    is_first = not path.exists()
    with path.open("a") as file:
        file.write("begun\\n")
    if is_first:
        time.sleep(1000)
    with path.open("a") as file:
        file.write("done\\n")
    return f"{number} is done"


def again(number: int, folder: str) -> str:
    """Work, at the first time for long; it may be repeated."""
    return _work(number, folder)


def once(number: int, folder: str) -> str:
    """Work, at the first time for long; it may not be repeated."""
    return _work(number, folder)


def ask(context) -> str:
    """Ask for a name."""
    answer = context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"hello {answer['content']['name']}"
'''
CONFIG = {
    "timeout": 1000,
    "tools": {
        "again": {"job": True, "annotations": {"idempotentHint": True}},
        "once": {"job": True},
        "ask": {"job": True},
    },
}
CAPABILITIES: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}


class Worker:
    """A running `patchbay worker`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def kill(self) -> None:
        """End it as a crash does, with the processes of its tools."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(BOUND)


@contextmanager
def working(nodes: Nodes, name: str, at_once: int) -> Iterator[Worker]:
    """A worker of the hubs, as users start it."""
    options = ["--store", nodes.address, "--key-file", str(nodes.folder / "key"), "--servers", str(nodes.servers)]
    options += ["--data", str(nodes.folder / name), "--jobs", str(at_once), "--hosts", str(2 * at_once)]
    options += ["--writes", str(marks(nodes.folder))]
    command = [sys.executable, "-m", "patchbay", "worker", *options]
    with (
        (nodes.folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=log) as process,
    ):
        worker = Worker(process)
        try:
            yield worker
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(BOUND)


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    """Two nodes that run no jobs themselves."""
    found = Nodes(tmp_path, postgresql.new_schema())
    found.servers.mkdir()
    (found.servers / "desk.py").write_text(DESK)
    (found.servers / "desk.mcp.json").write_text(json.dumps(CONFIG))
    with ExitStack() as stack:
        for _ in range(2):
            found.start(stack, "--no-jobs")
        yield found


def ask(hub: Hub, method: str, **params: Any) -> Any:
    """Send one request to a node; return its result."""
    body, headers = modern_request(method, params, CAPABILITIES)
    known = {"Accept": BOTH, **headers}
    answer = httpx2.post(f"http://127.0.0.1:{hub.port}/mcp/desk", json=body, headers=known, timeout=BOUND)
    found = answer.json()
    assert "result" in found, found
    return found["result"]


def begin(hub: Hub, tool: str, **arguments: Any) -> str:
    """Call a tool that runs as a job; return the id of its task."""
    made = ask(hub, "tools/call", name=tool, arguments=arguments)
    assert made["resultType"] == "task", made
    return str(made["taskId"])


def ended(hub: Hub, task: str) -> dict[str, Any]:
    """The task after its end."""
    found: dict[str, Any] = until(
        lambda: (
            (now := ask(hub, "tasks/get", taskId=task)) and now["status"] not in ("working", "input_required") and now
        ),
        "the end of the task",
    )
    return found


def streamed(hub: Hub, tasks: list[str]) -> dict[str, list[str]]:
    """The states of tasks in the order in which a stream of a node tells them, until all have ended."""
    body, headers = modern_request("subscriptions/listen", {"notifications": {"taskIds": tasks}}, CAPABILITIES)
    seen: dict[str, list[str]] = {task: [] for task in tasks}
    url = f"http://127.0.0.1:{hub.port}/mcp/desk"
    with httpx2.stream("POST", url, json=body, headers={"Accept": BOTH, **headers}, timeout=BOUND) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            params = json.loads(line[6:]).get("params", {})
            if params.get("taskId") in seen:
                seen[params["taskId"]].append(params["status"])
            if all(states and states[-1] in ("completed", "failed", "cancelled") for states in seen.values()):
                break
    return seen


def test_a_job_is_run_by_a_worker_and_its_task_is_told_by_every_node(nodes: Nodes) -> None:
    """36.1"""
    folder = str(marks(nodes.folder))
    (Path(folder) / "1").touch()
    waiting = begin(nodes.hubs[0], "again", number=1, folder=folder)
    assert ask(nodes.hubs[1], "tasks/get", taskId=waiting)["status"] == "working"
    with working(nodes, "worker", 2):
        done = ended(nodes.hubs[1], waiting)
        assert done["result"]["content"] == [{"type": "text", "text": "1 is done"}]
        asking = begin(nodes.hubs[0], "ask")
        questions = until(lambda: ask(nodes.hubs[1], "tasks/get", taskId=asking).get("inputRequests"), "the question")
        answer = {"action": "accept", "content": {"name": "Ada"}}
        ask(nodes.hubs[1], "tasks/update", taskId=asking, inputResponses=dict.fromkeys(questions, answer))
        assert ended(nodes.hubs[0], asking)["result"]["content"][0]["text"] == "hello Ada"
        running = begin(nodes.hubs[0], "once", number=2, folder=folder)
        until((Path(folder) / "2").exists, "the call runs")
        ask(nodes.hubs[1], "tasks/cancel", taskId=running)
        assert ended(nodes.hubs[0], running)["status"] == "cancelled"


def test_the_jobs_of_a_killed_worker_run_again_or_have_failed_with_the_reason(nodes: Nodes) -> None:
    """36.1: half of them may be repeated; a node that runs none streams all."""
    folder = marks(nodes.folder)
    with ExitStack() as stack:
        first = stack.enter_context(working(nodes, "first", JOBS))
        tasks = {
            begin(nodes.hubs[0], "again" if number % 2 else "once", number=number, folder=str(folder)): number
            for number in range(JOBS)
        }
        until(lambda: len(list(folder.iterdir())) == JOBS, lambda: f"{len(list(folder.iterdir()))} calls begin")
        first.kill()
        stack.enter_context(working(nodes, "second", JOBS))
        ids = list(tasks)
        seen: dict[str, list[str]] = {}
        for first_id in range(0, JOBS, MAX_TASKS_PER_STREAM):
            seen |= streamed(nodes.hubs[1], ids[first_id : first_id + MAX_TASKS_PER_STREAM])
    for task, number in tasks.items():
        found = ask(nodes.hubs[0], "tasks/get", taskId=task)
        marked = (folder / str(number)).read_text().split()
        assert seen[task][-1] == found["status"]
        if number % 2:
            assert (found["status"], marked) == ("completed", ["begun", "begun", "done"]), (number, found, marked)
        else:
            assert (found["status"], marked) == ("failed", ["begun"]), (number, found, marked)
            assert re.search("worker that ran it ended; it is not repeated", found["statusMessage"])


def test_a_node_runs_jobs_itself_unless_it_is_told_not_to(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    nodes = Nodes(tmp_path, postgresql.new_schema())
    nodes.servers.mkdir()
    (nodes.servers / "desk.py").write_text(DESK)
    (nodes.servers / "desk.mcp.json").write_text(json.dumps(CONFIG))
    with ExitStack() as stack:
        hub = nodes.start(stack)
        known = marks(tmp_path / "node0") / "1"
        known.touch()
        task = begin(hub, "again", number=1, folder=str(known.parent))
        assert ended(hub, task)["status"] == "completed"


QUICK = '''
def quick(text: str = "x") -> str:
    """Answer at once."""
    return f"{text} is done"
'''
QUICK_CONFIG = {"auto_discover": True, "isolation": "inline", "tools": {"quick": {"job": True}}}


class LateCatalogue:
    """The catalogue of a node that does not know a server: until it reads the newest changes, or never."""

    def __init__(self, catalogue: Catalogue, is_reading: bool) -> None:
        self._catalogue = catalogue
        self._is_reading = is_reading
        self._has_read = False
        self.served: dict[str, Any] = {}
        self.hub = catalogue.hub
        self.contents = catalogue.contents
        self.asked = threading.Event()

    def find_any(self, name: str) -> Any:
        self.asked.set()
        return self._catalogue.find_any(name) if self._has_read else None

    def catch_up(self) -> None:
        self._has_read = self._is_reading


class QuickNodes:
    """Hubs of this process on one PostgreSQL, and the jobs that the first of them defers."""

    def __init__(self, folder: Path, address: str, count: int) -> None:
        files = {"quick.py": QUICK, "quick.mcp.json": json.dumps(QUICK_CONFIG)}
        shared: dict[str, Any] = {"store": address, "key_file": folder / "key", "jobs": 0, "access": "open"}
        (folder / "key").write_text(secrets.token_hex(32))
        self.hubs = [InProcessHub(folder / "0", files, **shared)]
        self.hubs += [InProcessHub(folder / str(number), **shared) for number in range(1, count)]

    def jobs_of(self, number: int) -> Any:
        return self.hubs[number].app.parts.dispatcher.services.jobs

    def make_late(self, number: int, monkeypatch: pytest.MonkeyPatch, is_reading: bool) -> LateCatalogue:
        late = LateCatalogue(self.hubs[number].catalogue, is_reading)
        monkeypatch.setattr(self.jobs_of(number), "_catalogue", late)
        return late

    def begin(self) -> str:
        params = {"name": "quick", "arguments": {"text": "this"}}
        return str(self.hubs[0].modern("quick", "tools/call", params, CAPABILITIES).result["taskId"])

    def ended(self, task: str) -> dict[str, Any]:
        def look() -> Any:
            found = self.hubs[0].modern("quick", "tasks/get", {"taskId": task}, CAPABILITIES).result
            return found if found["status"] != "working" else None

        found: dict[str, Any] = until(look, "the end of the task")
        return found


@pytest.fixture
def quick_nodes(tmp_path: Path, postgresql: PostgresqlServer) -> Iterator[QuickNodes]:
    nodes = QuickNodes(tmp_path, postgresql.new_schema(), 3)
    yield nodes
    for hub in nodes.hubs:
        hub.close()


def test_a_node_reads_the_newest_servers_before_it_gives_a_job_back(
    quick_nodes: QuickNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = quick_nodes.make_late(1, monkeypatch, is_reading=True)
    task = quick_nodes.begin()
    quick_nodes.jobs_of(1).start(1, is_always=True)
    ended = quick_nodes.ended(task)
    assert ended["status"] == "completed" and late.asked.is_set()
    assert ended["result"]["content"][0]["text"] == "this is done"


def test_a_job_that_a_node_does_not_know_is_run_by_one_that_does(
    quick_nodes: QuickNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = quick_nodes.make_late(1, monkeypatch, is_reading=False)
    task = quick_nodes.begin()
    quick_nodes.jobs_of(1).start(1, is_always=True)
    assert late.asked.wait(BOUND), "the node that does not know the server takes the job first"
    quick_nodes.jobs_of(2).start(1, is_always=True)
    assert quick_nodes.ended(task)["result"]["content"][0]["text"] == "this is done"


def test_a_job_that_no_node_knows_fails_after_its_time(
    quick_nodes: QuickNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "UNKNOWN_SECONDS", 0.0)
    job = Job("", "quick", "nowhere", "quick", {}, LOCAL, {}, "2026-07-28", {})
    task = quick_nodes.jobs_of(0).defer(job).id
    quick_nodes.jobs_of(1).start(1, is_always=True)
    ended = quick_nodes.ended(task)
    assert ended["status"] == "failed" and "there is no server 'nowhere'" in ended["statusMessage"]
