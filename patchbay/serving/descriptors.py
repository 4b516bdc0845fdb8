"""How many files and connections a worker may have open, checked before the start.

Each open stream takes one descriptor, and a WebSocket two. A process that has none left can neither take a connection
nor read a file, so the limit is raised as far as the system allows, and what does not fit is refused from the start.
Source: https://man7.org/linux/man-pages/man2/setrlimit.2.html.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace

from patchbay.settings import Settings
from patchbay.wire.front.sockets import count_descriptors

log = logging.getLogger(__name__)

OWN_DESCRIPTORS = 1024
"""What a worker has open beside its streams and its calls: the store, pipes of processes, idle connections."""

START_DESCRIPTORS = 24
"""What a worker opens between the making of its application and its first request."""

MAX_KEPT_DESCRIPTORS = 512
"""Limit on the descriptors that connections leave to calls."""

DESCRIPTORS_OF_A_CALL = 4
"""Connection, two pipes of a process and a file."""


def needed_descriptors(settings: Settings) -> int:
    """How many descriptors a worker needs when all its listeners and threads are in use."""
    return settings.listeners + _others(settings)


def _others(settings: Settings) -> int:
    return OWN_DESCRIPTORS + DESCRIPTORS_OF_A_CALL * settings.threads


def ensure_descriptors(settings: Settings) -> Settings:
    """Raise this process's limit as far as the settings need; the settings with as many listeners as fit into it.

    Workers inherit the limit. Where the system allows fewer, a line in the log says how many and what to do.
    """
    needed = needed_descriptors(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_enough(soft, needed):
        return settings
    allowed = needed if _is_enough(hard, needed) else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == needed:
        return settings
    fitting = max(1, allowed - _others(settings), allowed // 2)
    log.warning(
        "this system lets a process open %d files: each worker has places for %d listening streams instead of %d"
        " (setting listeners). For all of them start the hub after `ulimit -n %d`, or with LimitNOFILE=%d in its"
        " systemd unit",
        allowed,
        min(fitting, settings.listeners),
        settings.listeners,
        needed,
        needed,
    )
    return replace(settings, listeners=min(fitting, settings.listeners))


def fitting_connections(wanted: int) -> int:
    """How many connections this process should take of `wanted`: half of its free descriptors, at most
    MAX_KEPT_DESCRIPTORS, stay free for calls.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return wanted
    free = soft - count_descriptors() - START_DESCRIPTORS
    return max(1, min(wanted, free - min(MAX_KEPT_DESCRIPTORS, free // 2)))


def _is_enough(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
