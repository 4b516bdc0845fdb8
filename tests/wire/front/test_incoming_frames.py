"""The received bytes of a WebSocket are taken in parts, so that no sender keeps the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Side
from websockets.protocol import Protocol as Framing

from patchbay.wire.front.frame_rates import FrameRate
from patchbay.wire.front.incoming_frames import IncomingFrames
from tests.waiting import BOUND

PINGS = 3000
MOST_AT_A_TIME = 400
PING = Frame(Opcode.PING, b"").serialize(mask=True)


def take(data: bytes, rate: FrameRate, until: Callable[[IncomingFrames, list[int]], bool]) -> list[int]:
    """Return the numbers of frames that were taken at a time, when `until` says so; bytes come at once."""

    async def run() -> list[int]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
            framing, taken = Framing(Side.SERVER, state=OPEN), list[int]()

            def handle() -> int:
                taken.append(len(framing.events_received()))
                return taken[-1]

            incoming = IncomingFrames(framing, transport, (rate,), handle)
            incoming.add(data)
            assert len(taken) == 1, "the loop looks at nothing else between two parts"
            async with asyncio.timeout(BOUND):
                while not until(incoming, taken):
                    await asyncio.sleep(0)
            incoming.close()
            transport.abort()
            return taken

    return asyncio.run(run())


def test_a_storm_of_pings_is_taken_in_parts() -> None:
    taken = take(PING * PINGS, FrameRate(1_000_000), lambda _, taken: sum(taken) == PINGS)
    assert max(taken) <= MOST_AT_A_TIME


def test_frames_beyond_the_rate_wait_and_reading_stops() -> None:
    """The rate allows one frame in some hours: the first part is taken, and the others wait."""
    turns = iter(range(1000))
    taken = take(PING * PINGS, FrameRate(0.0001), lambda *_: next(turns, None) is None)
    assert sum(taken) <= MOST_AT_A_TIME


def test_the_rest_is_taken_after_the_end_of_the_input() -> None:
    ended: list[bool] = []

    def until(incoming: IncomingFrames, taken: list[int]) -> bool:
        if not ended:
            ended.append(incoming.end())
        return sum(taken) == PINGS

    take(PING * PINGS, FrameRate(1_000_000), until)
    assert ended == [True]
