"""What is sealed of a run with the key of the hub: its snapshot, the answers that it has, results, and its outcome.

Each is bound to its run, so that no other record can have it in the place of its own.
"""

from __future__ import annotations

from typing import Any

from patchbay.coordination.sealing import Sealing
from patchbay.errors import ToolFailed
from patchbay.jsonrpc import dump_json, load_json
from patchbay.scripting.suspended.run_records import Outcome, RunHead, RunState
from patchbay.scripting.suspended.suspension import Suspension, read_suspension
from patchbay.scripting.suspended.tool_questions import Answers

UNKNOWN_RESULT = (
    "this call was made, and its result is unknown: the process of the hub that made it ended. It is not made again"
)

DAMAGED = (
    "the run cannot go on: its record is not what this hub has sealed for it (the record or the key of the hub was"
    " changed). Run the script again"
)


class RunSeals:
    """Seals and opens. `key` is the secret key of the hub."""

    def __init__(self, key: bytes) -> None:
        self._sealing = Sealing(key, b"suspended scripts")

    def seal_snapshot(self, head: RunHead, data: bytes) -> bytes:
        """Seal what a suspended run had, with its snapshot."""
        return self._sealing.seal(data, head.about())

    def open(self, state: RunState) -> tuple[Suspension, bytes]:
        """Return what a suspended run had, and its snapshot. Raises ToolFailed for a record that was changed."""
        assert state.head is not None
        data = None if state.is_damaged else self._sealing.open(state.sealed, state.head.about())
        if data is None:
            raise ToolFailed(DAMAGED)
        try:
            return read_suspension(data)
        except ValueError as problem:
            raise ToolFailed(DAMAGED) from problem

    def seal_answers(self, head: RunHead, data: bytes) -> bytes:
        """Seal the answers to the questions of tools."""
        return self._sealing.seal(data, _about_reply(head))

    def open_answers(self, state: RunState) -> Answers:
        """Return the answers to the questions of tools. Raises ToolFailed for a record that was changed."""
        assert state.head is not None
        if not state.reply:
            return {}
        data = self._sealing.open(state.reply, _about_reply(state.head))
        if data is None:
            raise ToolFailed(DAMAGED)
        answers: Answers = load_json(data)
        return answers

    def seal_outcome(self, head: RunHead, data: bytes) -> bytes:
        """Seal the outcome of a run."""
        return self._sealing.seal(data, _about_end(head))

    def open_outcome(self, state: RunState) -> Outcome:
        """Return the outcome of a run that has ended. Raises ToolFailed for a record that was changed."""
        assert state.head is not None and state.outcome is not None
        data = self._sealing.open(state.outcome, _about_end(state.head))
        if data is None:
            raise ToolFailed("the outcome of this run cannot be read: it is not what this hub has sealed for it")
        return Outcome(**load_json(data))

    def seal_result(self, id: str, call: str, answer: Any) -> bytes:
        """Return the sealed result of a call of a run."""
        return self._sealing.seal(dump_json(answer), _about_answer(id, call))

    def open_result(self, id: str, call: str, sealed: bytes) -> Any:
        """Return the result of a call. Raises ToolFailed if it is unknown, or was changed."""
        data = self._sealing.open(sealed, _about_answer(id, call)) if sealed else None
        if data is None:
            raise ToolFailed(UNKNOWN_RESULT)
        return load_json(data)


def _about_end(head: RunHead) -> bytes:
    bound = [head.id, head.principal, head.server, head.state]
    return dump_json(["ended", *bound])


def _about_reply(head: RunHead) -> bytes:
    return dump_json(["reply", head.id, head.principal, head.number, head.script])


def _about_answer(id: str, call: str) -> bytes:
    return dump_json(["answer", id, call])
