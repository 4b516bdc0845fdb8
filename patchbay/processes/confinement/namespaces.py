"""Namespaces: the processes of tools see only their own processes, and empty folders hide the files of the hub.

The fork server moves into new namespaces once (`enter`); their first process is an init process that reaps orphans.
Each worker process then makes its own view of the file system (`cover`): its own `/proc`, shared memory of a bounded
size, and empty folders over what is hidden. This needs no privileges where the system allows user namespaces to
ordinary users; containers and some distributions do not.

Sources: user_namespaces(7), pid_namespaces(7), mount_namespaces(7).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from patchbay.processes.confinement.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    LINUX,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    PR_SET_PDEATHSIG,
    control_process,
    mount,
    unshare,
)
from patchbay.processes.confinement.paths import SHARED_MEMORY, AllowedPaths

LOCKED_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | 1024 | 2048
"""The flags of a mount that may not be removed; the last two are MS_NOATIME and MS_NODIRATIME."""

CONTROL_SOCKETS = ("run/user/*", "run/screen", "run/docker.sock", "run/podman", "tmp/tmux-*", "tmp/ssh-*")
"""Where services listen that run commands for their user: a tool that reached one would escape its confinement."""


def enter() -> int:
    """Move this single-threaded process into new namespaces; return the process id of their init process. Raises
    OSError.

    Processes forked from now on have process ids of the namespace. They end with the init process, which ends with this
    one.
    """
    user, group = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    pid = os.fork()
    if pid == 0:
        _run_init()
    return pid


def _run_init() -> None:
    """Act as the first process of the namespace and reap every orphan. Does not return."""
    try:
        control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.closerange(0, 1 << 20)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            signal.pause()
    finally:
        os._exit(0)


def cover(places: AllowedPaths, shared_mib: int) -> None:
    """Give this process, which is inside the namespaces, its own view of the file system. Raises OSError.

    Hidden folders show only the server's own folders, and what it may read, inside them. `shared_mib` limits its shared
    memory, in MiB.
    """
    unshare(CLONE_NEWNS | CLONE_NEWIPC)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if Path(SHARED_MEMORY).is_dir():
        mount("tmpfs", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={shared_mib}m")
    for folder in places.hidden:
        if folder.is_dir():
            left = (*places.own, *places.shown)
            _hide(folder, [path for path in left if path.is_relative_to(folder) and path.exists()])
    for folder in (*places.kept, *places.shown):
        if folder.is_dir():
            _make_read_only(folder)
    for found in (path for pattern in CONTROL_SOCKETS for path in Path("/").glob(pattern)):
        if found.is_dir():
            _hide(found, [])
        else:
            mount("/dev/null", str(found), None, MS_BIND)


def _hide(folder: Path, left: Sequence[Path]) -> None:
    """Mount an empty folder over `folder`; the folders in `left` inside it stay usable."""
    opened = [(str(path), os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in left]
    mount("tmpfs", str(folder), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for name, found in opened:
        Path(name).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{found}", name, None, MS_BIND | MS_REC)
        os.close(found)
    mount("none", str(folder), None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _make_read_only(folder: Path) -> None:
    """Make a folder read-only. Flags that its file system already has stay set."""
    mount(str(folder), str(folder), None, MS_BIND | MS_REC)
    flags = os.statvfs(folder).f_flag & LOCKED_FLAGS
    mount("none", str(folder), None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def is_available() -> bool:
    """Whether namespaces work here. Tried in child processes; the caller must have one thread.

    The caller reaps the child later, because the kernel needs long to remove namespaces.
    """
    if not LINUX:
        return False
    result, report = os.pipe()
    if os.fork() == 0:
        try:
            enter()
            if os.fork() == 0:
                cover(AllowedPaths(), 1)
                os.write(report, b"yes")
            else:
                os.close(report)
                os.wait()
        finally:
            os._exit(0)
    os.close(report)
    try:
        return os.read(result, 3) == b"yes"
    finally:
        os.close(result)
