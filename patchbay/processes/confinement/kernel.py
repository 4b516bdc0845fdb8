"""System calls of Linux that Python has no function for, as functions that raise OSError.

On other systems `LINUX` is False, and callers must not call these functions.

Sources: landlock(7), unshare(2), mount(2), capset(2), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import sys

LINUX = sys.platform == "linux"

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls; they are the same on every architecture."""

MOUNT_SETATTR = 442
MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD = 1, 0x8000, -100

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_SLAVE = 1 << 19

PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_DROP = 1, 3, 4, 15, 24
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
LAST_CAPABILITY = 63
CAPABILITY_VERSION = 0x20080522

_LIBC = ctypes.CDLL(None, use_errno=True) if LINUX else None


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def system_call(number: int, first: int | bytes, second: int, third: int | bytes = 0, fourth: int = 0) -> int:
    """Make a system call by its number and return its result. Raises OSError.

    Numbers fit into 31 bits; bytes are only read.
    """
    assert _LIBC is not None, "only Linux has these system calls"
    return _checked(_LIBC.syscall(number, first, second, third, fourth), number)


def control_process(option: int, value: int = 0, third: int = 0) -> int:
    """Call `prctl` and return its result. Raises OSError."""
    assert _LIBC is not None, "only Linux has prctl"
    words = (ctypes.c_ulong(value), ctypes.c_ulong(third), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return _checked(_LIBC.prctl(option, *words), f"prctl({option})")


def set_process_name(name: bytes) -> None:
    """Set the name of this thread in process lists, of at most 15 bytes. Raises OSError."""
    assert _LIBC is not None, "only Linux has prctl"
    _checked(_LIBC.prctl(PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0), "prctl(PR_SET_NAME)")


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raises OSError."""
    assert _LIBC is not None, "only Linux has unshare"
    _checked(_LIBC.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount a file system. Raises OSError."""
    assert _LIBC is not None, "only Linux mounts this way"
    words = (os.fsencode(source), os.fsencode(target), os.fsencode(kind) if kind else None)
    _checked(_LIBC.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)), f"mount({target})")


def set_read_only(path: str, is_read_only: bool) -> None:
    """Make the mount at a path, and those below it, read-only or writable. Raises OSError (before Linux 5.12).

    Source: mount_setattr(2).
    """
    assert _LIBC is not None, "only Linux has mount_setattr"
    change = (MOUNT_ATTR_RDONLY, 0) if is_read_only else (0, MOUNT_ATTR_RDONLY)
    words = (ctypes.c_uint64 * 4)(*change, 0, 0)
    place = ctypes.c_char_p(os.fsencode(path))
    flags, size = ctypes.c_uint(AT_RECURSIVE), ctypes.c_size_t(ctypes.sizeof(words))
    result = _LIBC.syscall(MOUNT_SETATTR, ctypes.c_int(AT_FDCWD), place, flags, ctypes.byref(words), size)
    _checked(result, f"mount_setattr({path})")


def drop_capabilities() -> None:
    """Drop every capability of this thread, also for programs that it starts."""
    assert _LIBC is not None, "only Linux has capabilities"
    for capability in range(LAST_CAPABILITY + 1):
        if _LIBC.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # an ordinary user may not and has nothing to drop, or the kernel has no further capability
    _LIBC.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header = _CapabilityHeader(CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_LIBC.capset(ctypes.byref(header), nothing), "capset")


def _checked(result: int, what: int | str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"system call {what}")
    return result
