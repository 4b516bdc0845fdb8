"""Reads the kernel's counters of this process's connections, and shuts down connections of the web server.

The web server does not share its sockets; here they are known by their descriptors. A descriptor may be closed and used
again at any time, so this module never closes it: it shuts down a copy, after comparing it. It also works if the
process has no free descriptor. Counters need /proc and struct tcp_info, so Linux 4.6 or newer; other systems have none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import stat
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")

DESCRIPTORS = Path("/proc/self/fd")

ESTABLISHED, CLOSE_WAIT = 1, 8
"""States of a connection on which this end may still send: the other end is open, or only reads."""

# struct tcp_info of linux/tcp.h: state, unacked segments, milliseconds since data was sent and since some was
# received, bytes that the other end acknowledged, bytes it sent, bytes not sent yet.
INFO = struct.Struct("=B23xI16xI4xI64xQQ8xI")

LARGE_BLOCK_BYTES = 256 * 1024
_M_MMAP_THRESHOLD = -3

ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER that drops unsent data at the close; otherwise the kernel would keep sending it."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The kernel's counters of one connection; ages in seconds. `pending`: the other end has not received all data."""

    state: int
    pending: bool
    sent_ago: float
    received_ago: float
    acknowledged: int
    received: int

    @classmethod
    def of(cls, descriptor: int) -> Counters | None:
        """Return the counters of a TCP socket; None for any other descriptor, or if the system has none."""
        option = getattr(socket, "TCP_INFO", None)
        if option is None:
            return None
        found = _ask_socket(descriptor, lambda seen: seen.getsockopt(socket.IPPROTO_TCP, option, INFO.size))
        if found is None or len(found) < INFO.size:
            return None
        state, unacked, sent, received, acknowledged, bytes_in, unsent = INFO.unpack(found)
        return cls(state, bool(unacked or unsent), sent / 1000, received / 1000, acknowledged, bytes_in)

    @property
    def open(self) -> bool:
        """Whether this is a connection that no end has closed."""
        return self.state in (ESTABLISHED, CLOSE_WAIT)

    @property
    def silent(self) -> float:
        """Seconds since the last transfer; 0 while data waits for the other end."""
        return 0.0 if self.pending else min(self.sent_ago, self.received_ago)


def sockets() -> list[tuple[int, int]]:
    """Return the descriptors of all sockets of this process, each with the unique number of the socket.

    Raises OSError if the system does not list them.
    """
    try:
        with os.scandir(DESCRIPTORS) as found:
            descriptors: Iterable[int] = [int(entry.name) for entry in found]
    except OSError as problem:
        if problem.errno != errno.EMFILE:
            raise
        # No free descriptor is left to list them with, so every possible one is in use.
        descriptors = range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return [(descriptor, number) for descriptor in descriptors if (number := number_of(descriptor)) is not None]


def local_port(descriptor: int) -> int | None:
    """Return the local port of a TCP connection or listening socket; None for other descriptors."""
    if Counters.of(descriptor) is None:
        return None
    return _ask_socket(descriptor, lambda seen: int(seen.getsockname()[1]))


def remote_address(descriptor: int) -> str | None:
    """Return the address of the other end of a connection; None for other descriptors."""
    return _ask_socket(descriptor, lambda seen: str(seen.getpeername()[0]))


def is_socket(descriptor: int, number: int) -> bool:
    """Whether a descriptor is still the socket of that number."""
    return number_of(descriptor) == number


def peer_of(descriptor: int) -> str | None:
    """Return the other end of a network connection, like `127.0.0.1:4711` or `::1:4711`; None for other sockets."""
    peer = _ask_socket(descriptor, lambda seen: seen.getpeername())
    # The other end of a socket that is not a network connection has a name, which is text.
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else None


def count_descriptors() -> int:
    """Return the number of open descriptors; the limit if no free descriptor is left to count with."""
    try:
        # Linux since 6.2 says how many there are; before, the size is 0.
        if size := DESCRIPTORS.stat().st_size:
            return size
        return sum(1 for _ in DESCRIPTORS.iterdir())
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def most_connections(wanted: int) -> int:
    """Return the limit on the connections of one address: `wanted`, but at most three quarters of the descriptors."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, 3 * soft // 4))


def return_large_blocks() -> None:
    """Make the C library return every freed block of LARGE_BLOCK_BYTES or more to the system at once."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def give_back_memory() -> None:
    """Return the C library's freed memory to the system, if it supports that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def shut_down(descriptor: int, number: int, whole: bool) -> str | None:
    """Shut down the `whole` of a connection, or only its receiving half; return the address of its other end.

    None when it is no longer the socket of that `number`, or no longer open.
    """

    def shut(seen: socket.socket) -> str:
        address = str(seen.getpeername()[0])
        if whole:
            seen.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        seen.shutdown(socket.SHUT_RDWR if whole else socket.SHUT_RD)
        return address

    try:
        copy = os.dup(descriptor)
    except OSError as problem:
        # No descriptor is free for a copy. A small risk for another connection is better than that all stay in use.
        full = problem.errno == errno.EMFILE and number_of(descriptor) == number
        return _ask_socket(descriptor, shut) if full else None
    try:
        return _ask_socket(copy, shut) if number_of(copy) == number else None
    finally:
        os.close(copy)


def number_of(descriptor: int) -> int | None:
    """Return the unique number of the socket that a descriptor has; None for another file, or a closed one."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None


def _ask_socket(descriptor: int, question: Callable[[socket.socket], Answer]) -> Answer | None:
    """Return the answer of a socket; None for another descriptor, or after an error. The descriptor stays open."""
    try:
        # The family does not matter: each answer has its own.
        seen = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:
        return None
    try:
        return question(seen)
    except OSError:
        return None
    finally:
        seen.detach()
