"""Workers that are killed, replaced or out of descriptors: they lose at most their running calls, visibly.

Sources: THREATS X1, X23, X25.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.descriptors import list_descriptors
from tests.faults.callers import ANSWERED, CALLERS, CUT, Line, Load, call, together
from tests.serving.running import ONE_WORKER, Hub, marks, running
from tests.waiting import BOUND, until, until_async

pytestmark = pytest.mark.process

RATE = 200.0
"""Calls in a second."""

KILLS, APART = 2, 7.0
"""How many workers are killed, and seconds in between: sooner it would be taken for a hub that cannot work."""

RELOADS = 3

JOURNAL = '''
import os

def mark(folder: str, number: int) -> str:
    """Write a number down, and answer it."""
    journal = os.open(os.path.join(folder, "journal"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{number}\\n".encode())
    os.close(journal)
    return str(number)
'''

VERSION = 'def version() -> str:\n    """Say which version this is."""\n    return "{}"\n'


def served(folder: Path, **sources: str) -> None:
    """Put definitions into the watched folder, as an editor does: a file is there as a whole, or not at all."""
    (folder / "servers").mkdir(exist_ok=True)
    for name, source in sources.items():
        (folder / "part").write_text(source)
        (folder / "part").rename(folder / "servers" / f"{name}.py")


def marking(hub: Hub, folder: Path) -> Load:
    """Callers who each write a number of their own down."""
    return Load(
        hub.port, RATE, lambda number: call("journal", "mark", {"folder": str(marks(folder)), "number": number})
    )


async def under(load: Load, events: Callable[[], Awaitable[None]]) -> None:
    """Let something happen while calls are made, and wait until all of them are over."""
    load.begin()
    await until_async(lambda: len(load.kinds(ANSWERED)) > RATE / 2, "calls are answered")
    await events()
    now = len(load.kinds(ANSWERED))
    await until_async(lambda: len(load.kinds(ANSWERED)) > now + RATE / 2, "calls are answered afterwards")
    await together(load.stop())


def right(load: Load) -> set[int]:
    """The calls that were answered, each of them with its own number."""
    answered = load.kinds(ANSWERED)
    assert all((load.fates[n].status, load.fates[n].text) == (200, str(n)) for n in answered)
    return answered


def test_a_killed_worker_loses_only_its_running_calls(tmp_path: Path) -> None:
    """X1, M2: the journal is what was acknowledged and some of what is unknown, and nothing was done twice."""
    served(tmp_path, journal=JOURNAL)
    chance, kills = random.Random(1), list[float]()
    with running(tmp_path, "--workers", "2") as hub:
        load = marking(hub, tmp_path)

        async def killing() -> None:
            for _ in range(KILLS):
                await until_async(lambda: hub.listening() == 2, "two workers take connections")
                await until_async(lambda: time.monotonic() > max(kills, default=0) + APART, "some time has gone by")
                lost = chance.choice(sorted(hub.workers()))
                now = len(load.kinds(ANSWERED))
                kills.append(time.monotonic())
                os.kill(lost, signal.SIGKILL)
                await until_async(lambda lost=lost: len(hub.workers() - {lost}) == 2, "a new worker")  # type: ignore[misc]
                await until_async(lambda now=now: len(load.kinds(ANSWERED)) > now + RATE, "calls go on")  # type: ignore[misc]

        asyncio.run(under(load, killing))
        assert hub.end() == 0
    acknowledged = right(load)
    lost = load.fates.keys() - acknowledged
    # A caller has one call in hand at a time, and finds its connection closed once.
    assert len(lost) <= KILLS * CALLERS
    for number in lost:
        assert load.moments[number] + load.fates[number].took >= min(kills), load.fates[number]
    written = [int(line) for line in (marks(tmp_path) / "journal").read_text().split()]
    assert len(written) == len(set(written)), "no call is repeated"
    assert acknowledged <= set(written) <= acknowledged | lost


def test_workers_that_are_replaced_one_by_one_lose_nothing(tmp_path: Path) -> None:
    """X23: SIGHUP, again and again under load. What met a closing connection was not carried out (`callers.py`)."""
    served(tmp_path, journal=JOURNAL)
    with running(tmp_path, "--workers", "2") as hub:
        load = marking(hub, tmp_path)

        async def reloading() -> None:
            await until_async(lambda: hub.listening() == 2, "two workers take connections")
            for _ in range(RELOADS):
                before = hub.workers()
                hub.process.send_signal(signal.SIGHUP)
                await until_async(
                    lambda before=before: len(now := hub.workers()) == 2 and not now & before,  # type: ignore[misc]
                    "every worker is a new one",
                )

        asyncio.run(under(load, reloading))
        assert hub.end() == 0
    assert not load.kinds(CUT)
    written = [int(line) for line in (marks(tmp_path) / "journal").read_text().split()]
    assert sorted(written) == sorted(right(load))


def test_a_reload_that_cannot_start_keeps_the_workers_that_serve(tmp_path: Path) -> None:
    """A mistake in the boot image, made while the hub runs, ends neither the hub nor a worker that serves."""
    served(tmp_path, plain=VERSION.format(1))
    image = Path(shutil.copytree(ROOT / "reference_templates", tmp_path / "image")) / "default.boot.json"
    with running(tmp_path, "--workers", "2", "--boot", str(image)) as hub:
        until(lambda: hub.listening() == 2, "two workers take connections")
        before, whole = hub.workers(), image.read_bytes()
        image.write_bytes(b"{")
        hub.process.send_signal(signal.SIGHUP)
        until(lambda: hub.workers() - before, "a new worker is started")
        until(lambda: hub.workers() == before, "the new one is gone, and the old ones serve")
        assert hub.accepts()
        image.write_bytes(whole)
        hub.process.send_signal(signal.SIGHUP)
        until(lambda: len(now := hub.workers()) == 2 and not now & before, "every worker is a new one")
        assert hub.end() == 0


def versions(load: Load) -> Sequence[int]:
    """Which version answered each call, in the order of the calls."""
    assert load.kinds(ANSWERED) == load.fates.keys(), "no call failed"
    return [int(load.fates[number].text) for number in sorted(load.fates)]


def test_a_definition_that_changes_under_load_fails_no_call(tmp_path: Path) -> None:
    """X23: each call is answered by the old version or the new one, and the old one stays at its CID."""
    served(tmp_path, changing=VERSION.format(0))
    with running(tmp_path, "--workers", "2") as hub:
        load = Load(hub.port, RATE, lambda number: call("changing", "version", {}))

        async def changing() -> None:
            for version in range(1, 4):
                served(tmp_path, changing=VERSION.format(version))
                await until_async(
                    lambda version=version: (
                        {  # type: ignore[misc]
                            fate.text for number, fate in load.fates.items() if number > len(load.fates) - 20
                        }
                        == {str(version)}
                    ),
                    "both workers serve the new version",
                )

        asyncio.run(under(load, changing))
        seen = versions(load)
        assert set(seen) == {0, 1, 2, 3} and seen[-1] == 3
        assert hub.end() == 0


def test_a_worker_without_a_descriptor_left_waits_and_recovers(tmp_path: Path) -> None:
    """X25: the hub goes on, loses nothing, and serves all clients when files are free again."""
    served(tmp_path, journal=JOURNAL)

    def asked(number: int) -> bytes:
        return call("journal", "mark", {"folder": str(marks(tmp_path)), "number": number})

    async def once(hub: Hub, number: int) -> str:
        line = Line(hub.port)
        fate = await together(line.ask(asked(number)))
        line.close()
        assert fate.kind == ANSWERED, fate
        return "" if fate.status == 503 else str(fate.text)

    # One worker: the test limits its descriptors.
    with running(tmp_path, *ONE_WORKER) as hub, ExitStack() as crowd:
        assert asyncio.run(once(hub, 1)) == "1"
        [worker] = hub.workers()
        limits = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        room = len(list_descriptors(worker)) + 32
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (room, limits[1]))
        for _ in range(room):
            crowd.enter_context(socket.create_connection(("127.0.0.1", hub.port), BOUND))
        until(lambda: len(list_descriptors(worker)) >= room - 1, "the descriptors are used up")
        crowd.close()
        until(lambda: asyncio.run(once(hub, 2)) == "2", "files are free again")
        assert [asyncio.run(once(hub, number)) for number in range(3, 30)] == [str(n) for n in range(3, 30)]
        assert hub.workers() == {worker}
        assert hub.end() == 0
    assert (marks(tmp_path) / "journal").read_text().split() == [str(number) for number in range(1, 30)]
