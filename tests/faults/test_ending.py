"""A hub that gets a stop signal under load: every request that it took is answered whole, every stream gets its ending.

What is not served any more is refused: with 503 and a time to try again, or with no connection. A request that met
a closing connection gets no byte, and has not been carried out: its client may send it again elsewhere.
Sources: THREATS X22, M5.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.faults.callers import ANSWERED, CUT, UNHEARD, Fate, Line, Load, call, fetched, posted, session
from tests.hubs import modern_request
from tests.serving.running import Hub, marks, running
from tests.waiting import BOUND, until_async

pytestmark = pytest.mark.process

RATE = 300.0
"""Calls in a second."""

LISTENING, CALLING, HOSTED = 100, 80, 20
"""Open streams: those that only listen, streamed calls in the hub's process, streamed calls in processes."""

PIECES = 30
"""Pieces of a streamed call, one each tenth of a second: most of it comes after the signal."""

DRAIN = 50.0
"""Seconds that running calls may go on: a busy machine needs far more than the 3 s of a streamed call."""

CALLED = '''
import os

def mark(folder: str, number: int) -> str:
    """Write a number down, and answer it."""
    journal = os.open(os.path.join(folder, "journal"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{number}\\n".encode())
    os.close(journal)
    return str(number)
'''

STREAMED = '''
import time

def talk(pieces: int):
    """Say one piece after the other."""
    for number in range(pieces):
        yield f"{number} "
        time.sleep(0.1)
'''


class Stream:
    """One open stream, and what became of it."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.begun = False
        self.fate: Fate | None = None

    def see(self, body: bytes) -> None:
        self.begun = self.begun or body.count(b"\n\n") > 0

    async def live(self, port: int) -> None:
        line = Line(port)
        self.fate = await line.ask(self.request, self.see)
        line.close()

    @property
    def complete_fate(self) -> Fate:
        assert self.fate is not None
        assert (self.fate.kind, self.fate.status) == (ANSWERED, 200), self.fate
        return self.fate


class Streams:
    """All open streams, by kind."""

    def __init__(self) -> None:
        wanted = {"notifications": {"toolsListChanged": True}}
        listen = posted("echo", *modern_request("subscriptions/listen", wanted))
        talks = [
            call(server, "talk", {"pieces": PIECES}, "t", modern) for server in SERVERS for modern in (True, False)
        ]
        self.modern = [Stream(listen) for _ in range(LISTENING // 2)]
        self.calls = [Stream(talks[n % 2]) for n in range(CALLING)] + [Stream(talks[2 + n % 2]) for n in range(HOSTED)]
        self.older: list[Stream] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, port: int) -> None:
        """Open them, the endless ones first; on return all of them have begun."""
        for _ in range(LISTENING - len(self.modern)):
            self.older.append(Stream(fetched("echo", await session(port, "echo"))))
        for streams in (self.modern + self.older, self.calls):
            self._tasks += [asyncio.create_task(stream.live(port)) for stream in streams]
            await until_async(lambda streams=streams: all(one.begun for one in streams), "every stream has begun")  # type: ignore[misc]

    async def end(self) -> None:
        """Wait for all of them to be over."""
        await asyncio.gather(*self._tasks)


SERVERS = ("inline", "hosted")


def prepared(folder: Path) -> None:
    (folder / "servers").mkdir()
    (folder / "servers" / "called.py").write_text(CALLED)
    for name in SERVERS:
        (folder / "servers" / f"{name}.py").write_text(STREAMED)
    (folder / "servers" / "inline.mcp.json").write_text('{"auto_discover": true, "isolation": "inline"}')


async def ended(hub: Hub, folder: Path, streams: Streams) -> tuple[Load, float]:
    """Open the streams, call for a second, stop the hub, and continue to call until it is gone.

    Answers the calls, and the moment of the signal.
    """
    load = Load(hub.port, RATE, lambda number: call("called", "mark", {"folder": str(marks(folder)), "number": number}))
    load.begin()
    await until_async(lambda: len(load.kinds(ANSWERED)) > 50, "calls are answered")
    await streams.open(hub.port)
    now = len(load.kinds(ANSWERED))
    await until_async(lambda: len(load.kinds(ANSWERED)) > now + RATE / 2, "calls are answered beside the streams")
    at = time.monotonic()
    hub.process.terminate()
    await asyncio.to_thread(hub.process.wait, BOUND)
    await load.stop()
    await streams.end()
    return load, at


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hub_that_stops_under_load_cuts_no_answer(tmp_path: Path, workers: str) -> None:
    """X22, M5, SUB-5: 300 calls a second, and 200 open streams."""
    prepared(tmp_path)
    streams = Streams()
    with running(
        tmp_path, "--workers", workers, "--listeners", "256", "--threads", "512", "--drain", str(DRAIN)
    ) as hub:
        load, at = asyncio.run(ended(hub, tmp_path, streams))
        assert hub.finished() == 0

    journal = (marks(tmp_path) / "journal").read_text().split()
    served = {number for number in load.kinds(ANSWERED) if load.fates[number].status == 200}
    assert not load.kinds(CUT)
    assert all(load.fates[number].turned_away for number in load.kinds(ANSWERED) - served)
    assert all(load.fates[number].text == str(number) for number in served)
    # Every executed request was answered once, so a request without an answer has done nothing.
    assert sorted(map(int, journal)) == sorted(served)
    assert min(load.moments[number] for number in load.kinds(UNHEARD) | {max(load.moments)}) > at - 1

    said = "".join(f"{number} " for number in range(PIECES))
    assert {stream.complete_fate.text for stream in streams.calls} == {said}
    assert {stream.complete_fate.messages[-1]["result"]["resultType"] for stream in streams.modern} == {"complete"}
    for stream in streams.older:
        assert stream.complete_fate.body.endswith(b"\n\n")
