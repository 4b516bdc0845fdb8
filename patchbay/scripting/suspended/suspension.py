"""What a suspended run needs to go on, beside the snapshot of its interpreter: what the hub knew of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.access.principals import Principal
from patchbay.cid import cid_of
from patchbay.coordination.records import decode_record, encode_record
from patchbay.errors import ToolFailed
from patchbay.jsonrpc import dump_json


class CannotGoOn(ToolFailed):
    """A run cannot go on, for the reason that the message says: it does not reach the script."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for a person. `id` is that of the interpreter, `name` is `module.function`.

    `title` names the server and the tool, for people. `written` has the arguments as the script wrote them, with links,
    where `arguments` has the contents of these. `questions` are those that its tool asked, by its keys, each as
    `{"method", "params"}`; empty for a call that waits for its approval. `account` is the one that the caller has to
    connect first (`patchbay.events.Ask`); `questions` has the page then. `answers` are those to earlier ones, by the
    digest of the question (`digest_of_question`), each as often as it was asked; `rounds` says how often it asked.
    """

    id: int
    name: str
    line: int
    arguments: dict[str, Any]
    title: str = ""
    approval: str = ""
    written: dict[str, Any] | None = None
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    rounds: int = 0
    account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What a suspended run may still use, in the units of `RunLimits`. The time in which it is suspended is free."""

    calls: int
    argument_bytes: int
    result_bytes: int
    output_bytes: int
    running_seconds: float
    wall_seconds: float
    suspensions: int


@dataclass(frozen=True, slots=True)
class Suspension:
    """A suspended run. `calls` are the rows of the calls that it has made; `line` is that of its `await`.

    `sender` is who runs it: its rights are looked up again when it goes on. `tools` are the digests of the descriptors
    that its types were checked with, by `module.function`: another tool is not called. `interpreter` is the version of
    the interpreter that made the snapshot. `capabilities` are those of the client that began it, as far as its tools
    may ask questions, or with `asks_on_page` those of the page of the run. `secret` is in the keys of the questions of
    tools, so that no client knows one beforehand. `last_number` is the highest number of a call that it has made, also
    of one whose tool asked.
    """

    sender: Principal
    code: str
    inputs: dict[str, Any]
    line: int
    printed: str
    calls: list[dict[str, Any]]
    waiting: list[WaitingCall]
    left: BudgetLeft
    tools: dict[str, str]
    interpreter: str
    capabilities: dict[str, Any] = field(default_factory=dict)
    secret: str = ""
    last_number: int = 0
    asks_on_page: bool = False

    def to_bytes(self, snapshot: bytes) -> bytes:
        """Return the fields as a line of JSON, and then the snapshot."""
        return encode_record(self) + b"\n" + snapshot


def read_suspension(data: bytes) -> tuple[Suspension, bytes]:
    """Return what `to_bytes` got: the Suspension and its snapshot. Raises ValueError for other bytes."""
    fields, _, snapshot = data.partition(b"\n")
    return decode_record(Suspension, fields), snapshot


def digest_of_script(code: str, inputs: Mapping[str, Any]) -> str:
    """Return the digest of a script with its inputs: the same call has the same one."""
    return cid_of(dump_json([code, inputs], is_sorted=True))


def digest_of_rehearsal(server: str, code: str, inputs: Mapping[str, Any]) -> str:
    """Return the digest of a script with its inputs at the endpoint of a server ("" for all servers).

    The approvals of its rehearsal are for the runs that have the same one.
    """
    return cid_of(dump_json([server, code, inputs], is_sorted=True))


def digest_of_call(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the digest of one call with its arguments."""
    return cid_of(dump_json([server, tool, arguments], is_sorted=True))
