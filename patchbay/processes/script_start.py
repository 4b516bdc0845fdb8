"""The start of an interpreter of scripts: this process restricts itself, and then becomes the interpreter.

The interpreter runs text that a stranger may have written. It has no need of this machine but its own memory and its
standard streams. So the process gives up everything else before it becomes the interpreter: it has an empty
environment, opens no file but the program and its libraries, has no network, and its memory has a limit. What a machine
cannot restrict is left out, as for other programs.

It must start in milliseconds, so it loads only modules that import nothing but a few parts of the standard library.

Sources: landlock(7), user_namespaces(7), setrlimit(2).
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

from patchbay.processes.confinement import kernel, landlock

MEMORY_BYTES = 1024 * 1024 * 1024
"""Memory that an interpreter may have: the types of tools, its program, and the values of a script."""

MAX_DESCRIPTORS = 64

LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/nix/store")
"""Folders with the shared libraries of programs. They hold nothing of the hub and nothing of its user."""

LINKER_CACHE = "/etc/ld.so.cache"


def main(program: str, arguments: Sequence[str], priority: int = 0, is_silent: bool = False) -> None:
    """Become this program, restricted. `program` is its whole path. Raises OSError where it cannot be run.

    `priority` is the nice value that is added to that of the hub. With `is_silent`, what the program writes to its
    standard error is lost: an interpreter writes lines about scripts that need too much memory or nest too deeply, by
    which a caller could fill the log of the hub.
    """
    os.nice(priority)
    os.chdir("/")
    for which in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(which, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if kernel.LINUX:
        _limit_memory()
        _leave_network()
        _lock_files(program)
    errors = os.dup(sys.stderr.fileno())
    if is_silent:
        os.dup2(nowhere, sys.stderr.fileno())
    try:
        os.execve(program, [program, *arguments], {})
    except OSError:
        os.dup2(errors, sys.stderr.fileno())  # the reason is shown there
        raise


def _limit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    least = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (least, least))


def _leave_network() -> None:
    """Go into a network of its own, which has no device that is up; the first way is that of an ordinary user."""
    for more in (kernel.CLONE_NEWUSER, 0):
        with suppress(OSError):
            kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | more)
            break
    kernel.drop_capabilities()


def _lock_files(program: str) -> None:
    """Let the process open nothing but the program and the libraries of this machine."""
    kernel.control_process(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if not landlock.version():
        return
    rules = dict.fromkeys((program, *LIBRARIES), landlock.READ) | {LINKER_CACHE: landlock.READ_FILE}
    ruleset = landlock.make_ruleset_of(rules)
    landlock.enforce(ruleset)
    os.close(ruleset)
