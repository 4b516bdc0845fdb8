"""Questions that tools ask inside a script: which ones they may ask, and how the caller's client gets them.

A call ends with the questions of its tool, and is made again with the answers. The person who answers sees which tool
asks. The keys of the questions have a secret of the suspended run, so that no client answers before it was asked.
Source: MCP specification, client/elicitation; 2026-07-28, multi-round-trip requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchbay.activation import Call
from patchbay.events import Question
from patchbay.scripting.suspension import Suspension, WaitingCall

ELICITATION = "elicitation"
"""The capability of the questions that a tool may ask inside a script; a run does not wait for models and for roots."""

KEY = "script-question-"

Answers = Mapping[str, Mapping[str, Any]]
"""The answers by the id of the call (as text), and then by the key of the tool."""


def find_capabilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities of a client that allow tools inside a script to ask."""
    declared = capabilities.get(ELICITATION)
    return {ELICITATION: dict(declared)} if isinstance(declared, Mapping) else {}


def can_answer(call: Call) -> bool:
    """Whether the client of a call gets questions of tools. A tool that another tool calls may not ask."""
    return len(call.chain) <= 1 and bool(find_capabilities(call.capabilities))


def questions_of(suspension: Suspension) -> dict[str, Question]:
    """Return the questions of the tools that a suspended run waits for, as the client gets them."""
    return {key: _named(call, call.questions[own]) for key, call, own in _keys(suspension)}


def read_answers(suspension: Suspension, given: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the answers of a client by call; None if one question has none."""
    found: dict[str, dict[str, Any]] = {}
    for key, call, own in _keys(suspension):
        answer = given.get(key)
        if not isinstance(answer, Mapping):
            return None
        found.setdefault(str(call.id), {})[own] = dict(answer)
    return found


def _keys(suspension: Suspension) -> Iterator[tuple[str, WaitingCall, str]]:
    """Yield the key for the client, the call and the key of its tool, for each question."""
    asked = [(call, own) for call in suspension.waiting for own in call.questions]
    for number, (call, own) in enumerate(asked, 1):
        yield f"{KEY}{suspension.secret}.{number}", call, own


def _named(call: WaitingCall, question: Mapping[str, Any]) -> Question:
    """Return a question whose message names the tool that asks."""
    params = dict(question["params"])
    if isinstance(params.get("message"), str):
        params["message"] = f"{call.title} (line {call.line} of the script) asks: {params['message']}"
    return Question(question["method"], params)
