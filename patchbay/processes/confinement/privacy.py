"""A process whose memory, environment and descriptors other processes of its user cannot read.

The kernel checks this for every look through `/proc` and for debuggers. A program that is begun later is readable
again. A debugger of the operator's own needs it switched off (setting `protections`).
Sources: prctl(2) PR_SET_DUMPABLE; ptrace(2).
"""

from __future__ import annotations

from patchbay.processes.confinement.kernel import LINUX, PR_GET_DUMPABLE, PR_SET_DUMPABLE, control_process


def hide_memory() -> None:
    """Make this process unreadable; nothing where the kernel is not Linux."""
    if LINUX:
        control_process(PR_SET_DUMPABLE, 0)


def is_hidden() -> bool:
    """Whether this process is unreadable."""
    return LINUX and control_process(PR_GET_DUMPABLE) == 0
