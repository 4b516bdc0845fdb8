"""Which request a message of the server is for, where the server does not say it.

Over HTTP, the answer that brings a message belongs to a request. Over standard input and output nothing names the
request of a question or a log line before 2026-07-28. It is for the only caller whose requests are open: a message is
never shown to a caller that it may not be for. A question waits while requests of several callers are open. A request
whose caller has left counts until the server answers it, for ABANDONED_CALL_SECONDS, because the server may still work
on it.

Source: MCP specification 2025-11-25, basic/utilities/cancellation, client/elicitation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from patchbay.client.connection.requests import ABANDONED_CALL_SECONDS, RequestRun
from patchbay.client.errors import McpFailure

WAIT_SECONDS = 10.0
"""Seconds that a question waits until the requests of all callers but one have ended."""

_INTERNAL_ERROR = -32603


@dataclass(frozen=True, slots=True)
class _Abandoned:
    """A request whose caller has left, and the `time.monotonic()` of that."""

    caller: object
    at: float

    @property
    def counts(self) -> bool:
        return time.monotonic() < self.at + ABANDONED_CALL_SECONDS


@dataclass(frozen=True, slots=True)
class Candidates:
    """The requests that a question can be for: those that were open when it arrived."""

    runs: tuple[RequestRun, ...]
    abandoned: Mapping[str | int, _Abandoned]


class RequestOwners:
    """Finds the request of a message among the open ones, `runs` by id. Used on the event loop, except `has_others` and
    `note_end`.
    """

    def __init__(self, runs: Mapping[str | int, RequestRun]) -> None:
        self._runs = runs
        self._abandoned: dict[str | int, _Abandoned] = {}
        self._change: anyio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def note_left(self, run: RequestRun) -> None:
        """Record that the caller of a request has left before its answer."""
        if run.id is not None and run.caller is not None and not run.is_settled:
            self._abandoned = {id: one for id, one in self._abandoned.items() if one.counts}
            self._abandoned[run.id] = _Abandoned(run.caller, time.monotonic())

    def note_end(self) -> None:
        """Record that a request is no longer open; from any thread."""
        change, loop = self._change, self._loop
        if change is not None and loop is not None:
            loop.call_soon_threadsafe(change.set)

    def note_answer(self, id: str | int | None) -> None:
        """Record that the server has answered a request."""
        if id is not None and self._abandoned.pop(id, None) is not None:
            self.note_end()

    def has_others(self, caller: object) -> bool:
        """Whether the server may work on a request of another caller."""
        others = (run.caller for run in [*self._runs.values()] if run.caller is not None)
        left = (one.caller for one in [*self._abandoned.values()] if one.counts)
        return any(other != caller for other in (*others, *left))

    def find_now(self) -> RequestRun | None:
        """Return the newest request of the only caller with open ones; None when there are several callers."""
        runs = [*self._runs.values()]  # a copy, because callers register requests on their own threads
        named = [run for run in runs if run.caller is not None]
        if not named:
            return runs[0] if len(runs) == 1 else None
        return named[-1] if all(run.caller == named[0].caller for run in named) else None

    def list_candidates(self) -> Candidates:
        """Return the requests that a question which arrives now can be for."""
        named = tuple(run for run in [*self._runs.values()] if run.caller is not None)
        return Candidates(named, {id: one for id, one in self._abandoned.items() if one.counts})

    def find_at_once(self, candidates: Candidates) -> RequestRun | None:
        """Return the request that a question is for, while it arrives; None when `find` has to decide."""
        runs = candidates.runs
        if not runs or candidates.abandoned or any(run.caller != runs[0].caller for run in runs):
            return None
        return runs[-1]

    async def find(self, candidates: Candidates) -> RequestRun | None:
        """Return the request that a question is for, None when no caller has one open.

        Raises McpFailure when the requests of several callers stay open for WAIT_SECONDS.
        """
        if not candidates.runs and not candidates.abandoned:
            return self.find_now()
        with anyio.move_on_after(WAIT_SECONDS):
            while True:
                runs = [run for run in candidates.runs if run.id is not None and self._runs.get(run.id) is run]
                left = [one for id, one in candidates.abandoned.items() if id in self._abandoned and one.counts]
                callers = [*(run.caller for run in runs), *(one.caller for one in left)]
                if all(caller == callers[0] for caller in callers):
                    return runs[-1] if runs else None
                self._loop = asyncio.get_running_loop()
                self._change = self._change if self._change and not self._change.is_set() else anyio.Event()
                await self._change.wait()
        raise McpFailure(
            _INTERNAL_ERROR,
            "several callers have requests open here, and the question does not say which it is for; the tool can ask"
            " when it runs alone, or for a client with a session of its own",
        )
