"""The output of a program has one reader at a time; the event loop neither misses a line nor runs in vain."""

from __future__ import annotations

import asyncio
import os

import pytest

from patchbay.client.connection.programs.output_pipe import OutputPipe

ROUNDS = 100


class Counted(OutputPipe):
    """Counts how often the event loop was told that there is something to read."""

    calls = 0

    def _take_for_loop(self) -> None:
        self.calls += 1
        super()._take_for_loop()


async def _turn_the_loop() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(ROUNDS):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


def test_the_loop_waits_for_a_thread_that_is_about_to_give_its_turn_back() -> None:
    """The loop is watching again a moment before the turn is free; it ran in a circle, and kept the thread waiting."""

    async def watch() -> None:
        there, here = os.pipe()
        output = Counted(there, 1000)
        assert output._turn.acquire(blocking=False)  # as in the middle of `give_back`
        os.write(here, b"a line\n")
        await _turn_the_loop()
        assert output.calls == 1
        output.give_back()
        assert await output.next_lines() == [b"a line"]
        output.give_back_from_loop()
        os.write(here, b"another\n")
        assert await output.next_lines() == [b"another"]
        output.close()
        os.close(here)

    asyncio.run(watch())


@pytest.mark.parametrize("is_taken", [False, True])
def test_descriptors_are_closed_once_nobody_reads(is_taken: bool) -> None:
    async def close() -> None:
        there, here = os.pipe()
        output = OutputPipe(there, 1000)
        if is_taken:
            assert output.try_take()
        output.close()
        if is_taken:
            os.fstat(there)
            output.give_back()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(there)
        assert not output.try_take()
        os.close(here)

    asyncio.run(close())


def test_a_line_that_was_read_in_the_meantime_is_not_read_again() -> None:
    """A thread may take the turn after the loop was told."""

    async def read() -> None:
        there, here = os.pipe()
        output = OutputPipe(there, 1000)
        os.write(here, b"one\ntw")
        assert output.try_take()
        assert output.read_lines(1) == [b"one"]
        output.give_back()
        output._take_for_loop()
        assert await output.next_lines() == ()
        output.give_back_from_loop()
        os.write(here, b"o\n")
        assert await output.next_lines() == [b"two"]
        output.close()
        os.close(here)

    asyncio.run(read())
