"""The question to a client about calls that need an approval, as an elicitation, and what its answer approves.

One call has an empty form: to accept it is to approve the call. Several calls have one tick each, which is set: to
accept the form approves those that are still ticked. A form of ticks is the table that every revision with elicitation
can show; a client that sends no ticks back approves the calls whose arguments its user saw whole. A call whose
arguments are cut has a tick in each case, which is not set: what is dangerous may be in the part that is not shown.
Source: MCP specification, client/elicitation (form mode, boolean schemas with a default).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.access.approvals import AskedCall
from patchbay.events import Question
from patchbay.views.hidden_characters import escape_hidden_characters

ELICITATION = "elicitation/create"

MAX_QUESTION_CHARACTERS = 4000
"""Characters of the arguments in the question about one call."""

MAX_TICK_CHARACTERS = 400
"""Characters of the arguments of each of several calls."""

CUT = " A call whose arguments are shown in part has no tick beforehand: tick it only if you know all of its arguments."
"""What the question says as soon as the arguments of a call are longer than it shows."""


def question_key(question: str) -> str:
    """Return the key under which a client is asked; it has the id of the question, which no client can guess."""
    return f"approval-{question}"


def ask_client(calls: Sequence[AskedCall]) -> Question:
    """Return the question about these calls."""
    limit = _limit(calls)
    if len(calls) == 1 and _is_whole(calls[0], limit):
        shown = describe_asked(calls[0], limit)
        message = f"Approve this call of {tool_name(calls[0])}? It runs once, with these arguments: {shown}"
        return Question(ELICITATION, {"message": message, "requestedSchema": {"type": "object", "properties": {}}})
    ticks = {
        _tick(number): {
            "type": "boolean",
            "title": f"{number}. {tool_name(one)} {describe_asked(one, limit)}",
            "default": _is_whole(one, limit),
        }
        for number, one in enumerate(calls, 1)
    }
    tools = ", ".join(sorted({tool_name(one) for one in calls}))
    listed = "\n".join(str(one["title"]) for one in ticks.values())
    count = "this call" if len(calls) == 1 else f"these {len(calls)} calls"
    message = (
        f"Approve {count} of {tools}? Each runs once, with these arguments. A call without its tick is"
        f" refused.{'' if all(one['default'] for one in ticks.values()) else CUT}\n{listed}"
    )
    return Question(ELICITATION, {"message": message, "requestedSchema": {"type": "object", "properties": ticks}})


def read_answer(answer: Any, calls: Sequence[AskedCall]) -> list[bool]:
    """Return which of these calls an answer approves: none unless it accepts, and then those that are not unticked.

    A tick of another type than a boolean refuses its call, and so does a missing one of a call that was shown in part.
    """
    if not isinstance(answer, Mapping) or answer.get("action") != "accept":
        return [False] * len(calls)
    limit, content = _limit(calls), answer.get("content")
    if len(calls) == 1 and _is_whole(calls[0], limit):
        return [True]
    given = content if isinstance(content, Mapping) else {}
    return [given.get(_tick(number), _is_whole(one, limit)) is True for number, one in enumerate(calls, 1)]


def describe_asked(call: AskedCall, limit: int) -> str:
    """Return the arguments of a call as JSON, cut at `limit` characters; a cut one has its length and its CID."""
    shown = _show(call)
    if len(shown) <= limit:
        return shown
    return f"{shown[:limit]}... ({len(shown)} characters, {call.exact.arguments_cid})"


def tool_name(call: AskedCall) -> str:
    """Return the server and the tool of a call."""
    return f"{call.exact.server}.{call.exact.tool}"


def _limit(calls: Sequence[AskedCall]) -> int:
    return MAX_QUESTION_CHARACTERS if len(calls) == 1 else MAX_TICK_CHARACTERS


def _show(call: AskedCall) -> str:
    return escape_hidden_characters(call.arguments.decode())


def _is_whole(call: AskedCall, limit: int) -> bool:
    """Whether the question shows all arguments of a call."""
    return len(_show(call)) <= limit


def _tick(number: int) -> str:
    return f"call_{number}"
