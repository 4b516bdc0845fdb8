"""The standard output of a program: one reader at a time takes lines from it, the event loop or the thread of a caller.

A thread that waits for an answer reads by itself, so that no answer passes between threads. It has the turn meanwhile:

    the turn is free        the event loop watches the output, and takes the turn when there is something to read
    a thread begins to wait it takes the turn if that is free, and gives it back when it has its answer
    a line is no answer     its thread passes the line, those after it and the turn to the event loop

The event loop watches an epoll descriptor around the pipe, which any thread switches on and off without waking the
loop. On a system without epoll (macOS) the event loop keeps the turn.

Source: epoll(7).
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Sequence

READ_BYTES = 65536


class OutputPipe:
    """The end of a pipe that a program writes as its standard output. Made and closed on the event loop.

    `limit` is the largest line in bytes.
    """

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self.has_ended = self.has_oversized_line = False
        self._descriptor, self._limit = descriptor, limit
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0
        self._turn = threading.Lock()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._passed: Sequence[bytes] = ()
        self._is_closed = self._loop_waits = False
        self._loop_has_turn = asyncio.Event()
        self.is_shared = hasattr(select, "epoll")
        """Whether threads may take the turn."""
        self._is_watched = self.is_shared
        if self.is_shared:
            self._epoll = select.epoll()
            self._epoll.register(descriptor, select.EPOLLIN)
            self._watch()
        else:
            self._turn.acquire()
            self._loop_has_turn.set()

    # any thread

    def try_take(self) -> bool:
        """Take the turn; False when another one has it."""
        if not self._turn.acquire(blocking=False):
            return False
        if self._is_watched:
            self._is_watched = False
            self._epoll.modify(self._descriptor, 0)
        return True

    def give_back(self) -> None:
        """Give the turn back; the event loop watches until another one takes it."""
        if not self._is_closed:
            self._is_watched = True
            self._epoll.modify(self._descriptor, select.EPOLLIN)
        self._turn.release()
        if self._loop_waits:
            self._loop_waits = False
            self._loop.call_soon_threadsafe(self._watch)
        if self._is_closed and self._turn.acquire(blocking=False):
            self._close_descriptors()

    def pass_to_loop(self, lines: Sequence[bytes]) -> None:
        """Give the turn to the event loop, with lines that it has to read before all others."""
        self._passed = lines
        self._loop.call_soon_threadsafe(self._accept_turn)

    def read_lines(self, seconds: float | None) -> list[bytes]:
        """Wait up to `seconds` for output, and return its whole lines. The caller has the turn."""
        if not self._poll.poll(None if seconds is None else seconds * 1000):
            return []
        return self._split(os.read(self._descriptor, READ_BYTES))

    def _split(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in a piece, and keep the rest; note the end, and a line that is too long."""
        *lines, rest = piece.split(b"\n")
        if lines:
            if self._size:
                lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces, self._size = [rest], len(rest)
        else:
            self._pieces.append(piece)
            self._size += len(piece)
        self.has_oversized_line = self._size > self._limit
        self.has_ended = self.has_oversized_line or not piece
        return lines

    # the event loop

    async def next_lines(self) -> Sequence[bytes] | None:
        """Wait for the turn, and return the next lines; None at the end, or after a line that is too long."""
        await self._loop_has_turn.wait()
        if self._passed:
            lines, self._passed = self._passed, ()
            return lines
        if self.has_ended:
            return None
        if not self.is_shared:
            await self._wait_until_readable()
        try:
            return self._split(os.read(self._descriptor, READ_BYTES))
        except BlockingIOError:  # a thread has read it in the meantime
            return ()

    def give_back_from_loop(self) -> None:
        """Give back the turn, if the event loop took it with `next_lines` and may read more."""
        if self.is_shared and self._loop_has_turn.is_set() and not self.has_ended:
            self._loop_has_turn.clear()
            self._watch()
            self.give_back()

    async def discard_rest(self) -> bytes:
        """Read and return some output that no request needs; empty at the end."""
        await self._loop_has_turn.wait()
        await self._wait_until_readable()
        return os.read(self._descriptor, READ_BYTES)

    async def _wait_until_readable(self) -> None:
        readable = asyncio.Event()
        self._loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(self._descriptor)

    def _watch(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._epoll, self._take_for_loop)

    def _take_for_loop(self) -> None:
        """Take the turn, or leave it to the thread that gives it back or has just taken it."""
        if not self.try_take():
            # The thread waits for the interpreter, which a loop that is called again and again would keep.
            self._loop.remove_reader(self._epoll)
            self._loop_waits = True
            if not self.try_take():
                return
            self._loop_waits = False
        self._accept_turn()

    def _accept_turn(self) -> None:
        if self._is_closed:
            self._close_descriptors()
        else:
            # A pipe without a writer wakes the loop also while it is not watched.
            self._loop.remove_reader(self._epoll)
            self._loop_has_turn.set()

    def close(self) -> None:
        """Close the pipe, at once or when the thread that has the turn gives it back."""
        self._is_closed = True
        if self.is_shared:
            self._loop.remove_reader(self._epoll)
        if self._loop_has_turn.is_set() or self._turn.acquire(blocking=False):
            self._close_descriptors()

    def _close_descriptors(self) -> None:
        """Close the descriptors; the turn stays taken."""
        if self.is_shared:
            self._epoll.close()
        os.close(self._descriptor)
