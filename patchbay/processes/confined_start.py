"""Start a program in its confinement: what the hub runs in place of `process_trees.py` for a confined program.

    PLAN CONTROL FOLDER PROGRAM ARGUMENT...

`confinement/start_code.py` passes this module and the plan that `confinement/program_plans.py` makes to a new Python,
by the descriptor PLAN; for a program with a list of hosts a comma and the descriptor of a socket follow, which takes
its listening sockets. The other arguments are those of `process_trees.py`, which does the rest. With namespaces there
are two processes around the program: the outer one waits outside, the inner one is the first process of the namespace,
and so the parent of every orphan inside. The inner one makes the view of the file system; the process of the program
then drops its capabilities, sets its limits and restricts itself before the program runs. When one step fails, the
program does not run.

Without a plan it tries what this machine has, and writes the names of the available ways on a line.

It must start in milliseconds, so it loads only modules that import nothing but a few parts of the standard library, and
the packages around them do not run.

Sources: namespaces(7), user_namespaces(7), mount_namespaces(7), mount(2), landlock(7), setrlimit(2).
"""

from __future__ import annotations

import _thread
import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from patchbay.processes import process_trees
from patchbay.processes.confinement import kernel, landlock, tracing

TYPE_CHECKING = False  # `typing` takes a fifth of the time in which this program starts
if TYPE_CHECKING:
    from typing import Any, NoReturn

LOCKED_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | 1024 | 2048
"""The flags of a mount that may not be removed; the last two are MS_NOATIME and MS_NODIRATIME."""

USER, ROOT = "user", "root"
"""How namespaces are made: inside a namespace of the user, or with the rights of an administrator."""

SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, IFF_UP = 0x8914, 0x8916, 0x891C, 1

EXIT_UNCONFINED = 126
"""The exit code of a program that was not started because it could not be confined."""


def main(arguments: Sequence[str], plan: dict[str, Any] | None) -> None:
    """Run as a program; None as the plan tries what this machine has."""
    if plan is None:
        return _probe()
    _, *taker = map(int, arguments[0].split(","))
    try:
        if plan["namespaces"]:
            enter(plan["namespaces"], plan["network"], (int(arguments[1]), *taker))
            if plan["egress"]:
                pass_listeners(*plan["egress"], *taker)
            arrange(plan["mounts"])
            kernel.drop_capabilities()
        kernel.control_process(kernel.PR_SET_DUMPABLE, 0)
    except OSError as problem:
        _refuse(problem, int(arguments[1]))
    channel = record(plan["record"]) if plan["record"] is not None else None
    process_trees.main([*arguments[1:]], lambda: restrict(plan, channel))


def record(output: int) -> socket.socket:
    """Record what the program tries, on the descriptor `output`; return the socket that takes its listener.

    The program itself does not get `output`.
    """
    os.set_inheritable(output, False)
    ours, theirs = socket.socketpair()
    _thread.start_new_thread(tracing.write_record, (ours, output))  # `threading` takes milliseconds to load
    return theirs


def _refuse(problem: OSError, control: int) -> NoReturn:
    os.write(2, f"it cannot be confined, so it was not started: {problem.filename}: {problem.strerror}\n".encode())
    with suppress(OSError):
        os.write(control, f"exit {EXIT_UNCONFINED}\n".encode())
    os._exit(EXIT_UNCONFINED)


def enter(way: str, network: bool, inner: Sequence[int]) -> None:
    """Go on as the first process of new namespaces; the process before waits for its end. Raises OSError.

    `way` is USER or ROOT; without `network` there is no network but that of its own loopback device. `inner` are
    descriptors that only the first process keeps.
    """
    user, group = os.getuid(), os.getgid()
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
    kernel.unshare(flags | (kernel.CLONE_NEWUSER if way == USER else 0) | (0 if network else kernel.CLONE_NEWNET))
    if way == USER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)
    if not network:
        _start_loopback()
    child = os.fork()
    if child:
        _wait(child, inner)
    kernel.control_process(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(child: int, inner: Sequence[int]) -> NoReturn:
    """Wait for the process inside, without its streams, and end."""
    for descriptor in inner:
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    os._exit(max(0, os.waitstatus_to_exitcode(status)))


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def pass_listeners(addresses: Sequence[str], listeners: Sequence[tuple[str, int]], taker: int) -> None:
    """Listen on addresses and ports of this network namespace, and pass the sockets to the hub. Raises OSError.

    `addresses` are IPv4 addresses that the loopback device gets first, `taker` is a socket of the hub: it gets the
    places of the sockets in `listeners` as numbers. Where the kernel has no IPv6, its sockets are left out.
    """
    _add_addresses(addresses)
    found = {}
    for number, (address, port) in enumerate(listeners):
        is_ipv6 = ":" in address
        try:
            one = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_STREAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((address, port))
            one.listen()
        except OSError as problem:
            if is_ipv6:
                continue
            problem.filename = f"listen on {address}:{port}"
            raise
        found[number] = one
    with socket.socket(fileno=taker) as hub:
        socket.send_fds(hub, [" ".join(map(str, found)).encode()], [one.fileno() for one in found.values()])
    for one in found.values():
        one.close()


def _add_addresses(addresses: Sequence[str]) -> None:
    """Give IPv4 addresses to the loopback device, each under a name of its own. Source: netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for number, address in enumerate(addresses):
            for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.255")):
                name, packed = f"lo:{number}".encode(), socket.inet_aton(value)
                fcntl.ioctl(any_socket, request, struct.pack("16sH2x4s8x", name, socket.AF_INET, packed))


def arrange(steps: Sequence[Sequence[Any]]) -> None:
    """Make the view of the file system in this mount namespace, step by step. Raises OSError."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    for name, *values in steps:
        STEPS[name](*values)


def _mount_proc() -> None:
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _mount_memory(place: str, mib: int) -> None:
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode=1777,size={mib}m")


def _mount_hosts(content: str, place: str) -> None:
    """Show this content as /etc/hosts. `place` is a file that is made and removed, in a file system of its own."""
    target = os.path.realpath("/etc/hosts")
    if not os.path.isfile(target):  # noqa: PTH113
        return
    with open(place, "x") as file:  # noqa: PTH123
        file.write(content)
    kernel.mount(place, target, None, kernel.MS_BIND)
    os.unlink(place)  # noqa: PTH108
    _make_mount_read_only(target)


def _mount_overlay(lower: str, upper: str, work: str) -> None:
    """Show a shared folder at an own one, which takes all changes. Without it the own folder alone is used."""
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    for more in (",userxattr", ""):
        with suppress(OSError):
            kernel.mount("overlay", upper, "overlay", kernel.MS_NOSUID | kernel.MS_NODEV, options + more)
            return


Left = Sequence[tuple[str, bool]]
"""Places that stay usable where something covers them, and whether they are read-only there."""


def _open(left: Left) -> list[tuple[str, bool, int]]:
    found = []
    for place, is_read_only in left:
        with suppress(OSError):
            found.append((place, is_read_only, os.open(place, os.O_PATH | os.O_CLOEXEC)))
    return found


def _put_back(opened: Sequence[tuple[str, bool, int]]) -> None:
    """Mount opened files and folders at their names, which something else covers now."""
    for place, is_read_only, descriptor in opened:
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")  # noqa: PTH112
        os.makedirs(place if is_folder else os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        if not is_folder:
            os.close(os.open(place, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600))
        kernel.mount(f"/proc/self/fd/{descriptor}", place, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(descriptor)
        if is_read_only:
            _make_mount_read_only(place)


def _hide(folder: str, left: Left) -> None:
    """Mount an empty folder over `folder`; the places in `left` inside it stay usable."""
    if not os.path.isdir(folder):  # noqa: PTH112 (another step has covered it)
        return
    opened = _open(left)
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    _put_back(opened)
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", folder, None, flags)


def _replace(folder: str, own: str, left: Left) -> None:
    """Mount the folder `own` over `folder`; the places in `left` inside it stay usable."""
    opened = _open(left)
    kernel.mount(own, folder, None, kernel.MS_BIND)
    _put_back(opened)


def _cover_file(file: str) -> None:
    if os.path.lexists(file):
        kernel.mount("/dev/null", file, None, kernel.MS_BIND)


def _make_read_only(place: str) -> None:
    """Make a folder or a file read-only."""
    if os.path.lexists(place):
        kernel.mount(place, place, None, kernel.MS_BIND | kernel.MS_REC)
        _make_mount_read_only(place)


def _make_mount_read_only(place: str) -> None:
    """Make a mount read-only. Flags that its file system already has stay set."""
    flags = os.statvfs(place).f_flag & LOCKED_FLAGS
    kernel.mount("none", place, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)


def _freeze(writable: Sequence[str]) -> None:
    """Make everything read-only except these places: what Landlock does where the kernel has it."""
    for place in writable:
        kernel.mount(place, place, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.set_read_only("/", True)
    for place in writable:
        kernel.set_read_only(place, False)


STEPS: dict[str, Callable[..., None]] = {
    "proc": _mount_proc,
    "memory": _mount_memory,
    "hosts": _mount_hosts,
    "overlay": _mount_overlay,
    "hide": _hide,
    "replace": _replace,
    "cover": _cover_file,
    "read-only": _make_read_only,
    "freeze": _freeze,
}
"""The steps of a plan by name."""


def restrict(plan: dict[str, Any], channel: socket.socket | None = None) -> None:
    """Restrict this process, which becomes the program, permanently. Raises OSError.

    With `channel`, a supervisor records what the program tries.
    """
    kernel.drop_capabilities()
    for which, most in plan["limits"]:
        hard = resource.getrlimit(which)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))
    if plan["rules"] is None:
        kernel.control_process(kernel.PR_SET_NO_NEW_PRIVS, 1)
    else:
        ruleset = landlock.make_ruleset_of(plan["rules"], plan["ports"])
        landlock.enforce(ruleset)
        os.close(ruleset)
    if channel is not None:
        tracing.start_record(channel)


def _probe() -> None:
    """Write the ways in which namespaces can be made here, each tried in a process of its own."""
    found = []
    for way in (USER, ROOT):
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                enter(way, True, [os.open(os.devnull, os.O_RDONLY)])
                arrange([("proc",)])
                os._exit(0)
            os._exit(1)
        if os.waitpid(child, 0)[1] == 0:
            found.append(way)
    os.write(1, " ".join(found).encode() + b"\n")
