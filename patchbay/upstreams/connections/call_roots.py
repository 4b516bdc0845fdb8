"""Brings the roots of a caller to the server before the call that depends on them.

A server before 2026-07-28 asks for roots by itself: after the handshake, and after each `roots/list_changed`. Until it
has the answer it works in the folders that it has. So the first call over a connection, and the first one after a
change, let the server ask ahead of the call, before its answer to a ping, and wait for the written answers.

    a question that came before the call could be asked    was refused: the server is told to ask again
    a server that asks each connection after its handshake is given time to ask: over HTTP nothing orders a question of
                                                            its own stream and the answer to a ping
    a caller without a name may be another one each time   a server that has asked for roots is told to ask at each call
    nothing says when a server has taken roots in           it gets a moment, longer where it is slow to answer a ping

Source: MCP specification 2025-11-25, client/roots.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from patchbay.activation import PAUSE, Call, pauses
from patchbay.client.errors import McpFailure
from patchbay.events import Event
from patchbay.upstreams.connections.call_connections import CallConnection
from patchbay.upstreams.remembered_roots import RememberedRoots

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

MAX_PINGS = 40
"""Pings before one call. A server that asks before each answer is called after them."""

EXPECTED_SECONDS = 5.0
"""Seconds in which a server that asks for roots by itself has to begin with it."""

SETTLING_SECONDS = 0.2
"""Seconds that a server gets to take roots in, when it answers a ping at once."""

PINGS_PER_SETTLING, MAX_SETTLING_SECONDS = 4, 5.0
"""How many times as long as a ping a slower server gets, and the limit of that."""

Steps = Generator[Event, Any, None]


def bring_roots(
    reserved: CallConnection, connection: Connection, call: Call, roots: RememberedRoots, ping: Callable[[], Steps]
) -> Steps:
    """Let the server ask for the roots of the caller and take them in, if it may not have them.

    `ping` sends a ping whose messages belong to the call. Calls at once wait for the one that brings the roots.
    """
    if "list_roots" not in reserved.questions:
        return
    for wait in pauses(call):
        if reserved.bringing_roots.acquire(timeout=wait):
            break
        yield PAUSE
    try:
        name = roots.name_generation(call.principal, call.client)
        is_known = name == reserved.roots if name else not connection.answered_roots
        has_changed = reserved.has_roots and not is_known
        if reserved.has_roots and is_known:
            return
        answered = connection.answered_roots if has_changed else 0
        if has_changed or name != reserved.roots:
            connection.announce_changed_roots()
        yield from _let_ask(reserved, connection, call, ping, answered)
        reserved.roots, reserved.has_roots = name, True
    finally:
        reserved.bringing_roots.release()


def _let_ask(
    reserved: CallConnection, connection: Connection, call: Call, ping: Callable[[], Steps], answered: int
) -> Steps:
    """Ping the server until it asks for no more roots. `answered` is the number of its questions that do not count."""
    has_come, until = False, time.monotonic() + EXPECTED_SECONDS
    for _ in range(MAX_PINGS):
        begun = time.monotonic()
        try:
            yield from ping()
        except McpFailure as problem:
            log.debug("a server without ping answered it: %s", problem.message)
        seconds = time.monotonic() - begun
        yield from _wait_for_answers(connection, call)
        is_refused, reserved.is_refused_roots = reserved.is_refused_roots, False
        has_asked, answered = connection.answered_roots > answered, connection.answered_roots
        if is_refused:
            connection.announce_changed_roots()
        elif has_asked:
            has_come = True
            yield from _wait(call, SETTLING_SECONDS)
        elif has_come:
            yield from _wait(call, min(PINGS_PER_SETTLING * seconds, MAX_SETTLING_SECONDS))
            return
        elif not reserved.expects_roots or time.monotonic() > until:
            return
        else:
            yield from _wait(call, SETTLING_SECONDS)


def _wait_for_answers(connection: Connection, call: Call) -> Steps:
    """Wait until the server has been sent the answer to each question for roots that it has asked."""
    written = connection.when_roots_are_answered()
    try:
        for wait in pauses(call):
            try:
                written.result(wait)
                return
            except TimeoutError:
                yield PAUSE
    finally:
        written.cancel()


def _wait(call: Call, seconds: float) -> Steps:
    call.cancelled.wait(min(seconds, call.left()))
    yield PAUSE
