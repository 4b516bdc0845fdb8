"""The standard input of a program: whole messages, written by any thread without waiting, or by the event loop.

What the pipe has no room for is written by the event loop later; until then no other message is accepted, so that a
program that does not read makes its callers wait instead of filling the memory.

Sources: pipe(7); MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

import asyncio
import os
import threading

import anyio
from mcp.shared.message import SessionMessage


class InputPipe:
    """The end of a pipe that a program reads as its standard input. Made and closed on the event loop."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._rest = memoryview(b"")
        self._is_open = True
        self._has_room = asyncio.Event()
        self._has_room.set()

    def try_write(self, line: bytes) -> bool:
        """Write a line, from any thread. False when the program has not read earlier ones, or does not read any more.

        What there is no room for now is written later, also after True.
        """
        with self._lock:
            if self._rest or not self._is_open:
                return False
            try:
                self._rest = self._write(memoryview(line))
            except OSError:
                self._is_open = False
                return False
            if self._rest:
                self._loop.call_soon_threadsafe(self._wait_for_room)
        return True

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message of the session, and wait until all of it is written.

        Raises anyio.BrokenResourceError when the program does not read any more.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        while not self.try_write(line):
            if not self._is_open:
                raise anyio.BrokenResourceError
            self._wait_for_room()
            await self._has_room.wait()
        self._wait_for_room()
        await self._has_room.wait()

    async def aclose(self) -> None:
        """Do nothing: the input ends when the program is ended, not when the session ends."""

    def close(self) -> None:
        """Close the pipe, which tells the program to end."""
        with self._lock:
            self._is_open = False
            if self._descriptor >= 0:
                self._loop.remove_writer(self._descriptor)
                os.close(self._descriptor)
            self._descriptor, self._rest = -1, memoryview(b"")
        self._has_room.set()

    def _write(self, data: memoryview) -> memoryview:
        """Write what there is room for, and return the rest. Raises OSError."""
        try:
            return data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            return data

    def _wait_for_room(self) -> None:
        if self._rest and self._is_open:
            self._has_room.clear()
            self._loop.add_writer(self._descriptor, self._write_rest)

    def _write_rest(self) -> None:
        with self._lock:
            try:
                self._rest = self._write(self._rest)
            except OSError:
                self._is_open, self._rest = False, memoryview(b"")
        if not self._rest:
            self._loop.remove_writer(self._descriptor)
            self._has_room.set()
