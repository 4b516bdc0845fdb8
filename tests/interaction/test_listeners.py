"""A thousand listeners and two hundred changes, on one running hub.

The policy that is asserted: a change that a server's author announces is told once to every listener of that server.
Saved files are looked at twice a second, so changes of a file that follow each other faster become one notice; after
the last one there is a notice for all listeners. A listener gets no changes of another server. All of it holds for both
eras alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from patchbay.wire.requests.work_limits import EXTRA_THREADS
from tests.interaction.crowds import Crowd, Listener, descriptors_of, everyone
from tests.interaction.programs import free_port, running
from tests.serving.running import threads_of, workers_of

pytestmark = pytest.mark.process

CHANGES = 200
CROWD = {"everything": 300, "moving": 600, "quiet": 100}
"""How many listen to each server. A tenth of them does so in the older way."""

FREE = 100
"""Places for listeners beside the crowd."""

FIRST_CALLS = 20
"""Calls for each worker before the crowd comes, so that every worker has had one."""

THREADS = 64
"""Threads of a worker: far fewer than listeners."""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[str, Path, set[int]]]:
    """A hub with room for the crowd: its address, its servers folder, the process ids of its workers."""
    folder = tmp_path / "run"
    servers = folder / "servers"
    servers.mkdir(parents=True)
    port, most = free_port(), sum(CROWD.values())
    for name in ("moving", "quiet"):
        save(servers, name, 0)
    command = [sys.executable, "-m", "patchbay", "serve", "--port", str(port)]
    command += ["--data", str(folder / "data"), "--servers", str(servers), "--keepalive", "1"]
    command += ["--enable", "everything"]
    command += ["--listeners", str(most + FREE), "--threads", str(THREADS)]
    command += ["--connections", str(2 * most + 4 * FREE)]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/readyz", folder) as process:
        yield url, servers, workers_of(process.pid)


def save(servers: Path, name: str, number: int) -> None:
    """Save a definition with one tool, whose name is another each time."""
    draft = servers / f".{name}.draft"
    draft.write_text(f'def tool_{number}() -> str:\n    """A tool."""\n    return "{number}"\n', "utf-8")
    draft.replace(servers / f"{name}.py")


def total(count: Callable[[int], int], workers: set[int]) -> int:
    """The sum of a count over the workers."""
    return sum(map(count, workers))


def gathered(crowd: Crowd, sizes: dict[str, int]) -> dict[str, list[Listener]]:
    """So many listeners to each server, all of them begun."""
    found = {
        server: [(crowd.listen if n % 10 else crowd.get)(server) for n in range(size)] for server, size in sizes.items()
    }
    crowd.until(lambda: all(one.begun for one in crowd.listeners), "every stream has begun")
    return found


def changed(crowd: Crowd, servers: Path, times: int) -> None:
    """Change two servers so many times: one announces it, of the other the file is saved."""
    for number in range(1, times + 1):
        crowd.call("everything", "test_trigger_tool_change")
        save(servers, "moving", number)
        crowd.read_all()
    crowd.until(lambda: crowd.tools("moving") == [f"tool_{times}"], "the last file that was saved is served")


def agreed(listeners: Iterable[Listener]) -> bool:
    """Whether all streams got the same number of notifications."""
    return len({one.told for one in listeners}) == 1


def test_every_listener_hears_of_every_change_of_its_own_server_and_everything_comes_back(
    busy: tuple[str, Path, set[int]],
) -> None:
    """SUB-28, THREATS 1.2: 1,000 listeners, 200 changes; then threads and descriptors as they were."""
    url, servers, workers = busy
    crowd = Crowd(url)
    # What a worker makes once, at its first call, is part of the start. The kernel chooses the worker of a connection.
    for _ in range(FIRST_CALLS * len(workers)):
        crowd.call("everything", "test_simple_text")
    changed(crowd, servers, 1)
    threads, descriptors = total(threads_of, workers), total(descriptors_of, workers)

    listeners = gathered(crowd, CROWD)
    most = threads + len(workers) * (THREADS + EXTRA_THREADS)
    assert total(threads_of, workers) <= most, "a stream that listens holds no thread"
    changed(crowd, servers, CHANGES)
    crowd.until(lambda: everyone(listeners["everything"], CHANGES), "every change that was announced is told")
    moving = listeners["moving"]
    crowd.until(lambda: everyone(moving, 1) and agreed(moving), "all listeners get the changes of a file")
    told = max(one.told for one in moving)
    assert told <= CHANGES
    save(servers, "moving", 0)
    crowd.until(lambda: everyone(moving, told + 1) and agreed(moving), "one more change of the file is told")
    save(servers, "quiet", 1)
    crowd.until(lambda: everyone(listeners["quiet"], 1), "the one change of the quiet server is told")
    crowd.read_all()
    assert {one.told for one in listeners["everything"]} == {CHANGES}
    assert agreed(moving)
    assert max(one.told for one in moving) <= CHANGES + 1
    assert {one.told for one in listeners["quiet"]} == {1}
    assert not any(one.ended for one in crowd.listeners)

    crowd.close()
    after = Crowd(url)
    after.until(lambda: total(descriptors_of, workers) <= descriptors, f"descriptors return to {descriptors}")
    # The web server keeps a thread without work for half a minute.
    after.until(lambda: total(threads_of, workers) <= threads, f"threads return to {threads}")
    assert after.tools("moving") == ["tool_0"]
    after.close()
