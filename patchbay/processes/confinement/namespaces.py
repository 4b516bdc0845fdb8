"""Namespaces: the processes of tools see no process but their own, and files of the hub lie under an empty folder.

The fork server moves into new namespaces once (`enter`); the process numbers in it begin with an init process that
only buries orphans. Each host then makes a view of the file system of its own (`cover`): its own `/proc`, shared
memory of a bounded size, and empty folders over what is hidden. No rights on the machine are needed where the
system lets ordinary users have user namespaces; containers and some distributions do not.
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
"""With the last two a file system keeps no times of access (MS_NOATIME, MS_NODIRATIME)."""

CONTROL_SOCKETS = ("run/user/*", "run/screen", "run/docker.sock", "run/podman", "tmp/tmux-*", "tmp/ssh-*")
"""Where services listen that run commands for their user: a tool that reached one would be outside again."""


def enter() -> int:
    """Move this process, which has one thread, into new namespaces; the number of the init process. Raises OSError.

    What it forks from now on has process numbers of its own and ends with the init process, which ends with this one.
    """
    user, group = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    pid = os.fork()
    if pid == 0:
        _be_init()
    return pid


def _be_init() -> None:
    """The first process of the namespace: whatever loses its parent comes to it and is buried. Does not return."""
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
    """Give this process, which is inside the namespaces, a view of the file system of its own. Raises OSError.

    Of what is hidden only its own folders are left. `shared_mib` bounds its shared memory.
    """
    unshare(CLONE_NEWNS | CLONE_NEWIPC)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if Path(SHARED_MEMORY).is_dir():
        mount("tmpfs", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={shared_mib}m")
    for place in places.hidden:
        if place.is_dir():
            _hide(place, [one for one in places.own if one.is_relative_to(place) and one.exists()])
    for place in places.kept:
        if place.is_dir():
            _keep(place)
    for found in (one for pattern in CONTROL_SOCKETS for one in Path("/").glob(pattern)):
        if found.is_dir():
            _hide(found, [])
        else:
            mount("/dev/null", str(found), None, MS_BIND)


def _hide(folder: Path, left: Sequence[Path]) -> None:
    """Put an empty folder over one, in which some of those inside can be used as before."""
    opened = [(str(one), os.open(one, os.O_PATH | os.O_CLOEXEC)) for one in left]
    mount("tmpfs", str(folder), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for name, found in opened:
        Path(name).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{found}", name, None, MS_BIND | MS_REC)
        os.close(found)
    mount("none", str(folder), None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _keep(folder: Path) -> None:
    """Make a folder read-only. The flags that its file system has already may not be taken away."""
    mount(str(folder), str(folder), None, MS_BIND | MS_REC)
    flags = os.statvfs(folder).f_flag & LOCKED_FLAGS
    mount("none", str(folder), None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def work() -> bool:
    """Whether all of this can be had here. Tried in processes that end; to be asked by a process of one thread.

    Their end is left to the caller, which has a new child: the kernel takes long to clear namespaces away.
    """
    if not LINUX:
        return False
    told, tell = os.pipe()
    if os.fork() == 0:
        try:
            enter()
            if os.fork() == 0:
                cover(AllowedPaths(), 1)
                os.write(tell, b"yes")
            else:
                os.close(tell)
                os.wait()
        finally:
            os._exit(0)
    os.close(tell)
    try:
        return os.read(told, 3) == b"yes"
    finally:
        os.close(told)
