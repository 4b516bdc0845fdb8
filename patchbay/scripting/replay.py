"""Runs a script again against the recorded results of its calls: no call is made.

Each call gets the result of the recorded call of the same tool with the same arguments. The first difference that the
record cannot answer ends the run: a call that was not recorded, or whose result was not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from patchbay.activation import Call, Events
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import PatchbayError
from patchbay.events import Data, Done
from patchbay.scripting.calls import APPROVAL_REFUSED, NOT_RUN
from patchbay.scripting.modules import find_function, modules_of
from patchbay.scripting.runs import ScriptRuns
from patchbay.scripting.suspended.suspension import CannotGoOn

MAX_SHOWN_CHARACTERS = 200
"""Characters of the arguments of a call, and of a value, in a sentence about a difference."""


REFUSED_RESULT = {"content": [{"type": "text", "text": f"{NOT_RUN}: {APPROVAL_REFUSED}"}], "isError": True}
"""What a refused call has in place of a recorded result."""


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """A recorded call: its tool as `server.tool`, its line, its arguments and its result (None: not kept)."""

    tool: str
    line: int
    arguments: Mapping[str, Any] | None
    result: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Replay:
    """What a repeated run gives: its value, or the text of its failure, and each difference as a sentence.

    `is_partial` says that the record had no answer to a call, so that the run came to no end.
    """

    value: Any
    failure: str
    differences: tuple[str, ...]
    is_partial: bool


class _Ended(CannotGoOn):
    """The record has no answer to a call."""


class _ReplayedCall:
    """A call that is not made. Its events are those of no call, and its result is the recorded one."""

    def __init__(self, hub: _ReplayHub, tool: str, arguments: Mapping[str, Any]) -> None:
        self.result: Mapping[str, Any] = {}
        self.line = self.number = 0
        self.written: Mapping[str, Any] | None = None
        self._hub = hub
        self._tool = tool
        self._arguments = arguments

    def events(self) -> Events:
        """Find the recorded result. Raises CannotGoOn where the record has none."""
        self.result = self._hub.find_result(self._tool, self.line, self._arguments)
        yield Done()


class _ReplayHub:
    """Stands for the hub in a run: it answers each call from the record. Thread-safe."""

    resumed_scripts = None
    """A repeated run is never suspended."""

    def __init__(self, recorded: Sequence[RecordedResult]) -> None:
        self.differences: list[str] = []
        self.is_partial = False
        self._left = list(recorded)
        self._lock = threading.Lock()

    def call_for_script(
        self, server: str, descriptor: Descriptor, arguments: dict[str, Any], call: Call, pinned: Server | None
    ) -> _ReplayedCall:
        """Return the call of a tool, which is answered from the record."""
        return _ReplayedCall(self, f"{server}.{descriptor.name}", dict(arguments))

    def find_result(self, tool: str, line: int, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of the recorded call that this one repeats. Raises CannotGoOn."""
        with self._lock:
            found = self._take(tool, line, arguments)
            if found is None:
                self.differences.append(f"one more call: {tool} in line {line} with {_shown(arguments)}")
                self._end(f"the record has no call of {tool} that this one repeats")
            if found.arguments is not None and found.arguments != arguments:
                both = f"with {_shown(arguments)}, recorded {_shown(found.arguments)}"
                self.differences.append(f"other arguments: {tool} in line {line} {both}")
            if found.result is None:
                self.differences.append(f"not kept: the record has no result of {tool} in line {line}")
                self._end(f"the record has no result of {tool}")
            return found.result

    def _end(self, sentence: str) -> NoReturn:
        self.is_partial = True
        raise _Ended(sentence)

    def note_missing(self) -> None:
        """Note the recorded calls that were not repeated."""
        for one in self._left:
            self.differences.append(f"one call less: {one.tool} in line {one.line} with {_shown(one.arguments)}")

    def _take(self, tool: str, line: int, arguments: Mapping[str, Any]) -> RecordedResult | None:
        """Take the recorded call of a tool with these arguments, else one whose arguments were other or not kept."""
        same = [one for one in self._left if one.tool == tool]
        equal = [one for one in same if one.arguments == arguments]
        unknown = [one for one in same if one.arguments is None]
        other = [one for one in same if one.line == line]
        for candidates in (equal, unknown, other):
            if candidates:
                self._left.remove(candidates[0])
                return candidates[0]
        return None


def replay_run(runs: ScriptRuns, server: Server, call: Call, recorded: Sequence[RecordedResult]) -> Replay:
    """Run the script of a call (`code`, `inputs`) again with the tools of a server; its calls get recorded results."""
    hub = _ReplayHub(recorded)
    value, failure = None, ""
    try:
        for event in runs.run(server, replace(call, hub=hub)):  # type: ignore[arg-type]
            if isinstance(event, Data):
                value = event.value["value"]
    except PatchbayError as problem:
        failure = problem.message
    if not hub.is_partial:
        hub.note_missing()
    return Replay(value, failure, tuple(hub.differences), hub.is_partial)


def find_refused(server: Server, answer: Any) -> list[RecordedResult]:
    """Return the calls that a person refused, from the recorded answer of a run: they have no records of their own."""
    value = answer.get("structuredContent") if isinstance(answer, Mapping) else None
    rows = value.get("calls") if isinstance(value, Mapping) else None
    refused = [one for one in rows or () if one.get("refused")]
    if not refused:
        return []
    modules = modules_of(server)
    functions = [(find_function(modules, one["tool"]), one["line"]) for one in refused]
    return [RecordedResult(one[0].title, line, None, REFUSED_RESULT) for one, line in functions if one is not None]


def _shown(arguments: Mapping[str, Any] | None) -> str:
    if arguments is None:
        return "arguments that were not kept"
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
