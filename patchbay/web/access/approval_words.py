"""Calls that need an approval, in words: who wants to do what with which arguments, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from patchbay.access.approvals import APPROVED, EXPIRED, REFUSED, REPLACED, USED, WAITING, WITHDRAWN, Approval
from patchbay.jsonrpc import dump_json, load_json
from patchbay.views.hidden_characters import escape_hidden_characters, show_hidden_characters
from patchbay.web.rendering.names import name_caller

_STATES = {
    WAITING: "waits",
    APPROVED: "approved, has not run yet",
    REFUSED: "refused",
    USED: "approved, ran once",
    REPLACED: "replaced by a later rehearsal",
    WITHDRAWN: "its script was cancelled",
}


def describe_call(approval: Approval, now: float, mode: str) -> dict[str, Any]:
    """Return the values that pages show of an approval. `mode` is the access mode of the hub.

    `who` is who asks; `rows` has the arguments (`list_arguments`), None if they are not stored; `exact` is their JSON;
    `origins` has what is behind a tool of a toolset (`server`, `name`, `tool`); `outcome` is the state at `now`;
    `run` is the id of the run of a script that asks, "" for a call by itself, and `rehearsal` that of a rehearsal.
    """
    text = approval.arguments
    return {
        "id": approval.id,
        "who": name_caller(approval.call.principal, mode),
        "principal": approval.call.principal,
        "server": approval.call.server,
        "tool": approval.call.tool,
        "rows": None if text is None else list_arguments(text),
        "exact": None if text is None else escape_hidden_characters(text),
        "tool_digest": approval.call.tool_digest,
        "origins": orjson.loads(approval.call.origins) if approval.call.origins else [],
        "arguments_cid": approval.call.arguments_cid,
        "run": approval.run,
        "rehearsal": approval.run if approval.script else "",
        "made": approval.made,
        "expires": approval.expires,
        "waits": approval.state_at(now) == WAITING,
        "outcome": describe_outcome(approval, now),
        "decided": approval.decided,
        "by": name_caller(approval.by, mode) if approval.by else "",
    }


def describe_questions(approvals: Iterable[Approval], now: float, mode: str) -> list[dict[str, Any]]:
    """Return the questions that approvals are about, in their order, as values that pages show.

    Each has the `id` to decide about, its `calls` (`describe_call`), `who` asks, the `run` of the script that asks (""
    for a call by itself), the `rehearsal` that this run is ("" for any other), and the times `made` and `expires`.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for one in approvals:
        found.setdefault(one.question, []).append(describe_call(one, now, mode))
    shared = ("who", "run", "rehearsal", "made", "expires")
    return [{"id": id, "calls": calls, **{name: calls[0][name] for name in shared}} for id, calls in found.items()]


def list_arguments(text: str) -> list[dict[str, Any]]:
    """Return the arguments of a stored call as rows: `name`, `value`, and `is_text` for a string, which has no quotes.

    A value of another type is JSON, so that the number 5 and the text 5 differ. Raises ValueError for text that is not
    the JSON of an object.
    """
    found = load_json(text.encode())
    if not isinstance(found, dict):
        raise ValueError("expected the arguments of a call as a JSON object")
    return [
        {
            "name": show_hidden_characters(name),
            "value": show_hidden_characters(value)
            if isinstance(value, str)
            else escape_hidden_characters(dump_json(value).decode()),
            "is_text": isinstance(value, str),
        }
        for name, value in found.items()
    ]


def describe_outcome(approval: Approval, now: float) -> str:
    """Return the state of an approval in words: `approved, ran once`, `no decision in time`."""
    state = approval.state_at(now)
    if state == EXPIRED:
        return "no decision in time" if approval.decided is None else "approved, did not run in time"
    return _STATES[state]
