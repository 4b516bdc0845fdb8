"""Hide the memory, environment and descriptors of a process from other processes of its user.

The kernel checks this for every read through `/proc` and for debuggers. A program that is started later is readable
again. Debugging the hub needs it switched off (setting `protections`).

Sources: prctl(2) PR_SET_DUMPABLE; ptrace(2).
"""

from __future__ import annotations

from patchbay.processes.confinement.kernel import LINUX, PR_GET_DUMPABLE, PR_SET_DUMPABLE, control_process


def hide_memory() -> None:
    """Make this process unreadable; does nothing where the kernel is not Linux."""
    if LINUX:
        control_process(PR_SET_DUMPABLE, 0)


def is_hidden() -> bool:
    """Whether this process is unreadable."""
    return LINUX and control_process(PR_GET_DUMPABLE) == 0
