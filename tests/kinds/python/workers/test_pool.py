"""The pool of workers: kept warm, separate, limited, replaced, and ended."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import activate
from patchbay.errors import ToolFailed
from patchbay.events import Data, Done, Event, Text
from patchbay.kinds.python.workers.fork_server import ForkServer
from patchbay.kinds.python.workers.fork_server_client import ForkServerClient
from patchbay.kinds.python.workers.worker_connection import WorkerConnection, WorkerGone
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from tests.checkout import ROOT
from tests.kinds.calls import alive, call_of, events, next_event
from tests.kinds.python.workers.conversing import descriptors, failure, family, hosted, value
from tests.waiting import until

PID = "import os\nloaded = []\ndef main():\n    loaded.append(1)\n    return [os.getpid(), len(loaded)]"
WAITS = "import time\ndef main():\n    yield 'here'\n    time.sleep(30)"


@pytest.fixture
def hosts() -> Iterator[WorkerPool]:
    made = WorkerPool(most=4, calls=5)
    yield made
    made.close()


def test_a_definition_is_loaded_once_and_its_worker_is_used_again(hosts: WorkerPool) -> None:
    handler = hosted(hosts, PID)
    first, second = value(handler), value(handler)
    assert (first[1], second) == (1, [first[0], 2])


def test_a_worker_runs_one_definition_of_one_server_only(hosts: WorkerPool) -> None:
    found = [value(hosted(hosts, source, name))[0] for source in (PID, PID + "\n") for name in ("one", "two")]
    assert len(set(found)) == 4


def test_a_worker_is_replaced_after_many_calls(hosts: WorkerPool) -> None:
    handler = hosted(hosts, PID)
    pids = [value(handler)[0] for _ in range(11)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [5, 5, 1]
    until(lambda: not alive(pids[0]))


def test_a_server_with_its_maximum_of_workers_is_busy_while_others_run(hosts: WorkerPool) -> None:
    """One that hangs blocks no other server."""
    handler = hosted(hosts, WAITS, "greedy")
    running = [activate(handler, call_of()) for _ in range(3)]
    assert [next_event(one) for one in running] == [Text("here")] * 3
    assert failure(handler, left=0.3).startswith("greedy is busy")
    assert value(hosted(hosts, "def main(): return 'fine'", "modest")) == "fine"
    for one in running:
        one.close()


def test_a_waiting_call_gets_the_worker_that_becomes_free(hosts: WorkerPool) -> None:
    source = "import time\ndef main():\n    time.sleep(0.1)\n    return 'x'"
    handler = hosted(hosts, source)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(value(handler))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["x"] * 12


def test_idle_workers_make_room_for_other_definitions(hosts: WorkerPool) -> None:
    sources = [f"def main(): return '{n}'" for n in range(12)]
    assert [value(hosted(hosts, source)) for source in sources] == [str(n) for n in range(12)]
    until(lambda: len(family(*hosts.pids)) <= 4 + 2)


def test_idle_workers_end() -> None:
    hosts = WorkerPool(idle=0.0)
    try:
        pid = value(hosted(hosts, PID))[0]
        until(lambda: not alive(pid))
        assert value(hosted(hosts, PID))[1] == 1
    finally:
        hosts.close()


def test_a_worker_that_died_while_idle_fails_no_call(hosts: WorkerPool) -> None:
    handler = hosted(hosts, PID)
    pid = value(handler)[0]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    assert value(handler)[1] == 1


def test_a_slow_definition_is_loaded_before_its_call(hosts: WorkerPool) -> None:
    source = "import time\ntime.sleep(0.5)\nbegun = time.monotonic()\n"
    source += "def main(): return [time.monotonic() - begun, __import__('os').getpid()]"
    handler = hosted(hosts, source)
    pids = [value(handler)[1] for _ in range(5)]
    until(lambda: not alive(pids[0]))
    age, pid = value(handler)
    assert (age < 0.5, pid in pids) == (True, False)
    assert pid != pids[0]


def test_a_killed_fork_server_is_replaced(hosts: WorkerPool) -> None:
    handler = hosted(hosts, PID)
    host, fork_servers = value(handler)[0], hosts.pids
    for pid in fork_servers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(host))
    found: list[Event] = []

    def answered() -> bool:  # the end of the fork server is noticed a moment later
        found[:] = events(handler, call_of())
        return isinstance(found[-1], Done)

    until(answered)
    assert isinstance(found[0], Data) and found[0].value[0] != host and found[0].value[1] == 1
    assert hosts.pids != fork_servers


def test_spare_workers_are_closed_after_a_failed_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, hosts = descriptors(), WorkerPool()
    spawn, left = hosts._spawn, iter([True, True])

    def fails_after_two(*given: Any) -> WorkerConnection:
        if not next(left, False):
            raise ToolFailed("no more")
        return spawn(*given)

    monkeypatch.setattr(hosts, "_spawn", fails_after_two)
    assert failure(hosted(hosts, PID)) == "no more"
    assert hosts.counts().now["blank"] == 2
    hosts.close()
    until(lambda: descriptors() <= before)


def test_closing_ends_every_process_and_descriptor() -> None:
    before = descriptors()
    hosts = WorkerPool()
    pid = value(hosted(hosts, PID))[0]
    running = activate(hosted(hosts, WAITS), call_of())
    assert next_event(running) == Text("here")
    fork_servers = hosts.pids
    hosts.close()
    assert not any(map(alive, (pid, *fork_servers)))
    assert "the hub is ending" in str(list(running)[-1])
    until(lambda: descriptors() <= before)
    assert failure(hosted(hosts, PID)) == "the hub is ending"


def test_a_worker_has_an_empty_folder_that_is_removed_with_it(hosts: WorkerPool) -> None:
    source = """
    import os, pathlib
    def main():
        found = [os.getcwd(), os.listdir()]
        pathlib.Path("deep/er").mkdir(parents=True)
        pathlib.Path("deep/file").write_text("x")
        os.chdir("/")
        return found
    def here():
        return os.getcwd()
    """
    handler = hosted(hosts, source)
    folder, inside = value(handler)
    assert inside == []
    until(lambda: not Path(folder, "deep").exists())
    assert value(handler, "here") == folder
    for _ in range(3):
        value(handler, "here")
    until(lambda: not Path(folder).exists())


PROGRAM = """
import sys, time
from tests.kinds.python.workers.conversing import hosted
from tests.kinds.calls import call_of
from patchbay.activation import activate
from patchbay.events import Failed, Text
from patchbay.kinds.python.workers.worker_pool import WorkerPool

hosts = WorkerPool()
source = "import os, subprocess, time\\ndef main():\\n    child = subprocess.Popen(['setsid', 'sleep', '600'])\\n"
source += "    yield f'{os.getpid()} {child.pid}'\\n    time.sleep(600)"
running = activate(hosted(hosts, source), call_of())
said = next(event for event in running if isinstance(event, Text))  # there may be pauses before it
print(said.text, *hosts.pids, flush=True)
time.sleep(600)
"""


def test_worker_processes_die_with_the_process_of_their_hub() -> None:
    """`kill -9` of a hub process leaves no process behind."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            pids = [int(word) for word in worker.stdout.readline().split()]
            assert len(pids) == 3 and all(map(alive, pids))
        finally:
            worker.kill()
    until(lambda: not any(map(alive, pids)))


def test_spare_workers_are_started_in_advance(hosts: WorkerPool) -> None:
    pid = value(hosted(hosts, PID))[0]
    until(lambda: len(family(*hosts.pids)) == 3)
    standing_by = family(*hosts.pids) - {pid}
    assert value(hosted(hosts, PID, "other"))[0] in standing_by


def test_many_threads_share_the_workers(hosts: WorkerPool) -> None:
    handlers = [hosted(hosts, "def main(n): return n", f"s{n}") for n in range(6)]
    wrong: list[object] = []

    def work(start: int) -> None:
        for n in range(start, start + 30):
            if (found := events(handlers[n % 6], call_of({"n": str(n)}))[0]) != Text(str(n)):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n * 100,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_any_number_of_idle_workers_may_have_ended() -> None:
    """Like all of them after their fork server was killed."""
    own = WorkerPool(most=8)
    try:
        handler = hosted(own, "import os\ndef main():\n    yield os.getpid()")
        running = [activate(handler, call_of()) for _ in range(5)]
        pids = [next_event(one).value for one in running]  # type: ignore[union-attr]
        assert [list(one)[-1] for one in running] == [Done()] * 5
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(alive, pids)))
        assert value(handler) not in pids
    finally:
        own.close()


def test_a_worker_that_ends_before_it_gets_its_definition_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before, hosts = descriptors(), WorkerPool()

    def lose_worker(link: WorkerConnection, data: bytes) -> bytes:
        raise WorkerGone

    monkeypatch.setattr(WorkerConnection, "write", lose_worker)
    assert failure(hosted(hosts, PID)).startswith("the tool")
    hosts.close()
    until(lambda: descriptors() <= before)


def test_a_failed_start_of_a_fork_server_leaves_no_folder_and_descriptor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = descriptors()
    with pytest.raises(ToolFailed, match="no process can be started for the tool: No such file or directory"):
        ForkServerClient(["/nowhere/bwrap"])
    assert (list(tmp_path.iterdir()), descriptors()) == ([], before)


def test_workers_continue_when_no_process_can_be_started_for_cleanup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A fork bomb elsewhere does not end the fork server, and with it every call."""
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "left").touch()

    def no_more() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with socket.create_server(("127.0.0.1", 0)) as control:
        parent = ForkServer(os.dup(control.fileno()), tmp_path)
    monkeypatch.setattr(os, "fork", no_more)
    parent._clean(folder)
    assert folder.exists()
    parent._control.close()
    os.close(parent._woken)
    os.close(parent._wake)
