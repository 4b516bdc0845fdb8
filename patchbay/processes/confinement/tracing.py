"""Record which files a program opens to change or to read, and where it connects to, while the kernel confines it.

The kernel tells a supervisor of some system calls before it carries them out, and carries them out as it would without:
the record allows and forbids nothing. `confined_start.py` uses it for a trial of a program; it loads only modules that
import nothing but a few parts of the standard library. The record is for people: a program that wants to hide what it
does can, for it may change the memory that the record reads.

Sources: seccomp_unotify(2), seccomp(2), openat(2), connect(2); the numbers of system calls of x86-64 and arm64.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

from patchbay.processes.confinement.kernel import system_call

READ, WRITE, CONNECT = "read", "write", "connect"
"""The kinds of a record."""

MAX_RECORDS = 20_000
MAX_PATH_BYTES = 4096

_Path = tuple[int | None, int, int]
_CALLS: dict[str, tuple[int, int, dict[int, _Path], int]] = {
    "x86_64": (
        317,
        0xC000003E,
        {2: (None, 0, 1), 85: (None, 0, -1), 257: (0, 1, 2), 437: (0, 1, -2), 83: (None, 0, -1), 258: (0, 1, -1)}
        | {87: (None, 0, -1), 263: (0, 1, -1), 82: (None, 1, -1), 264: (2, 3, -1), 316: (2, 3, -1)},
        42,
    ),
    "aarch64": (
        277,
        0xC00000B7,
        {56: (0, 1, 2), 437: (0, 1, -2), 34: (0, 1, -1), 35: (0, 1, -1), 38: (2, 3, -1), 276: (2, 3, -1)},
        203,
    ),
}
"""By machine: the numbers of seccomp and of the machine, then those of calls with a path, then that of connect.

Of a call with a path: the arguments with the folder, the path and the flags. Without flags it changes files (-1), or
has them in a structure (-2).
"""

_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")


def is_supported() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return os.uname().machine in _CALLS


def start_record(channel: socket.socket) -> None:
    """Make this process, which becomes the program, tell of its system calls; send the listener. Raises OSError."""
    number, machine, paths, connect = _CALLS[os.uname().machine]
    wanted = [*paths, connect]
    code = [(0x20, 0, 0, 4), (0x15, 0, len(wanted) + 1, machine), (0x20, 0, 0, 0)]
    code += [(0x15, len(wanted) - place, 0, each) for place, each in enumerate(wanted)]
    code += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _NOTIFY)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in code))
    program = struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(filters))
    listener = system_call(number, _SET_MODE_FILTER, _NEW_LISTENER, program)
    socket.send_fds(channel, [b"l"], [listener])
    os.close(listener)


def write_record(channel: socket.socket, output: int) -> None:
    """Write a line for each different record to a descriptor until the program has ended: the kind and what it names.

    Run it in a thread of the parent of the program.
    """
    _, found, _, _ = socket.recv_fds(channel, 1, 1)
    if not found:
        return
    [listener] = found
    seen: set[str] = set()
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    with suppress(OSError):
        while all(not flags & select.POLLHUP for _, flags in waiting.poll()):
            for line in _answer(listener):
                if line not in seen and len(seen) < MAX_RECORDS:
                    seen.add(line)
                    os.write(output, line.encode("utf-8", "surrogateescape") + b"\n")
    os.close(listener)


def _answer(listener: int) -> Iterator[str]:
    """Receive one call, yield its record, and let the kernel go on."""
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError:  # the process has ended meanwhile
        return
    identifier, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    with suppress(OSError, ValueError):
        yield from _describe(pid, number, arguments)
    with suppress(OSError):
        fcntl.ioctl(listener, _SEND, bytearray(_ANSWER.pack(identifier, 0, 0, _CONTINUE)))


def _describe(pid: int, number: int, arguments: list[int]) -> Iterator[str]:
    _, _, paths, connect = _CALLS[os.uname().machine]
    if number == connect:
        yield from _describe_address(_read(pid, arguments[1], min(arguments[2], 128)))
        return
    folder, place, how = paths[number]
    path = _read(pid, arguments[place], MAX_PATH_BYTES).partition(b"\0")[0].decode("utf-8", "surrogateescape")
    flags = arguments[how] if how >= 0 else 0
    if how == -2:
        [flags] = struct.unpack("=Q", _read(pid, arguments[2], 8))
    changes = how == -1 or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    if not path.startswith("/"):
        path = os.path.join(_folder_of(pid, None if folder is None else arguments[folder]), path)  # noqa: PTH118
    yield f"{WRITE if changes else READ} {os.path.normpath(path)!r}"


def _folder_of(pid: int, descriptor: int | None) -> str:
    """Return the folder in which a relative path begins."""
    number = None if descriptor is None else ctypes.c_int(descriptor & 0xFFFFFFFF).value
    return os.readlink(f"/proc/{pid}/cwd" if number is None or number < 0 else f"/proc/{pid}/fd/{number}")  # noqa: PTH115


def _describe_address(address: bytes) -> Iterator[str]:
    [family] = struct.unpack("=H", address[:2])
    if family == socket.AF_UNIX:
        path = address[2:].split(b"\0")[0].decode("utf-8", "surrogateescape")
        if path:
            yield f"{CONNECT} {path!r}"
    elif family in (socket.AF_INET, socket.AF_INET6):
        [port] = struct.unpack("!H", address[2:4])
        host = address[4:8] if family == socket.AF_INET else address[8:24]
        if port:
            yield f"{CONNECT} {f'{socket.inet_ntop(family, host)} port {port}'!r}"


def _read(pid: int, address: int, size: int) -> bytes:
    """Return bytes of the memory of a process; fewer at the end of a mapping."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        found = b""
        while len(found) < size:
            start = address + len(found)
            piece = min(size - len(found), 4096 - start % 4096)
            try:
                read = os.pread(memory.fileno(), piece, start)
            except OSError:
                break
            found += read
            if not read or b"\0" in read:
                break
        return found
