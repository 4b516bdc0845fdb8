"""Whether the server behind a mount is alive: what an idle connection is asked, and what silence means.

While a server works on a request, its silence proves nothing: many servers answer one message at a time. So only an
idle connection is probed, and a probe without an answer is confirmed by a second one of another kind. Any message of
the server that comes meanwhile is an answer too. A server that answers the second request and not the first is asked
the second one from then on: some never answer `ping`.

Source: MCP specification 2025-11-25, basic/utilities/ping.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchbay.client.errors import HttpRefused, McpFailure, ServerTimeout, SessionLost, Unreachable
from patchbay.errors import MethodNotFound, PatchbayError

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

TOO_MANY_REQUESTS = 429
LISTS = ("tools/list", "resources/list", "prompts/list")
"""Requests that can confirm a probe, where the server declares them."""


@dataclass(frozen=True)
class Patience:
    """How long the hub waits for a mounted server, in seconds.

    `probe` is the silence after which an idle connection is probed; `answer` is for the first probe and for requests
    that a server may refuse, `confirmation` for the second probe. `list` is for one page of a list, and `next_list` for
    one after another list got no answer; `first_retry` and `last_retry` are the pauses before such a list is asked for
    again, and `retried_list` is for a page then.
    """

    probe: float = 15.0
    answer: float = 5.0
    confirmation: float = 10.0
    list: float = 5.0
    next_list: float = 2.0
    retried_list: float = 30.0
    first_retry: float = 10.0
    last_retry: float = 300.0


class Liveness:
    """What is known about the answers of one mounted server; kept over its connections. For one thread."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._mute: dict[str, str] = {}

    @property
    def note(self) -> str:
        """What the server's page says about probes; empty when the usual one is answered."""
        return "".join(
            f"; it does not answer {method}, so the hub sends {other} to check it"
            for method, other in self._mute.items()
        )

    def check(self, connection: Connection, is_program: bool) -> None:
        """Probe a connection, unless the server works on a request. Raises Unreachable for a dead server.

        A program that answers with an error is alive; at a URL, an error in place of both answers may come from
        something in front of the server.
        """
        if connection.closed:
            raise connection.end_reason
        if connection.is_busy():
            return
        begun, silent, problem = time.monotonic(), "", PatchbayError("")
        for method, seconds in zip(
            self._methods(connection), (self._patience.answer, self._patience.confirmation), strict=False
        ):
            try:
                connection.get_result(method, timeout=seconds)
            except SessionLost:
                return
            except ServerTimeout as failure:
                if connection.is_busy():
                    return
                silent, problem = silent or method, failure
                continue
            except McpFailure as failure:
                if not is_program and not _is_alive(failure):
                    problem = failure
                    continue
            if silent:
                self._mute = {silent: method}
            return
        if connection.heard_at < begun:
            raise Unreachable(problem.message) from problem

    def _methods(self, connection: Connection) -> tuple[str, str]:
        """Return the request to send first, and the one that confirms its silence."""
        usual = "server/discover" if connection.modern else "ping"
        lists = [method for method in LISTS if connection.has_list(method)] or [LISTS[0]]
        known = [usual, *lists]
        first, second = sorted(known, key=self._mute.__contains__)[:2]
        return first, second


def _is_alive(failure: McpFailure) -> bool:
    """Whether an error proves that the server is there: it lacks the method, or it limits how often it is asked."""
    limited = isinstance(failure, HttpRefused) and failure.http_status == TOO_MANY_REQUESTS
    return limited or failure.code == MethodNotFound.code
