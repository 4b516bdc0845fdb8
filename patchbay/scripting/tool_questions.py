"""Questions that come up inside a script: which ones tools may ask, and how the caller's client gets them.

A call ends with the questions of its tool, and is made again with the answers. The person who answers sees which tool
asks. A call for which its caller has to connect an account ends too; the question is the page where the caller does so,
and the call is made again once the account is there. The keys of the questions have a secret of the suspended run, so
that no client answers before it was asked.
Source: MCP specification, client/elicitation; 2026-07-28, multi-round-trip requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from patchbay.activation import Call
from patchbay.events import Question
from patchbay.scripting.suspension import Suspension, WaitingCall

ELICITATION = "elicitation"
"""The capability of the questions that a tool may ask inside a script; a run does not wait for models and for roots."""

KEY = "script-question-"

Answers = Mapping[str, Mapping[str, Any]]
"""The answers by the id of the call (as text), and then by the key of the tool."""

NO_ANSWERS: Answers = MappingProxyType({})


def find_capabilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities of a client that allow tools inside a script to ask."""
    declared = capabilities.get(ELICITATION)
    return {ELICITATION: dict(declared)} if isinstance(declared, Mapping) else {}


def can_answer(call: Call) -> bool:
    """Whether the client of a call gets questions of tools. A tool that another tool calls may not ask."""
    return len(call.chain) <= 1 and bool(find_capabilities(call.capabilities))


def can_open_pages(call: Call) -> bool:
    """Whether the client of a call opens the page where its caller connects an account (elicitation in URL mode)."""
    declared = find_capabilities(call.capabilities).get(ELICITATION, {})
    return len(call.chain) <= 1 and isinstance(declared.get("url"), Mapping)


def questions_of(suspension: Suspension) -> dict[str, Question]:
    """Return the questions of tools that a suspended run waits for, as the client gets them."""
    return {key: _named(call, call.questions[own]) for key, call, own in _keys(suspension) if call.account is None}


def pages_of(suspension: Suspension) -> dict[str, Question]:
    """Return the pages where the caller of a suspended run connects accounts, as questions to its client."""
    return {key: _named(call, call.questions[own]) for key, call, own in _keys(suspension) if call.account is not None}


def accounts_of(waiting: Sequence[WaitingCall]) -> str:
    """Return the accounts that waiting calls need, as the head of a run has them."""
    return " ".join(sorted({":".join(one.account) for one in waiting if one.account is not None}))


def read_accounts(accounts: str) -> list[tuple[str, str]]:
    """Return what `accounts_of` wrote: the key of each server, and the id of the account that it refused."""
    pairs = (one.partition(":") for one in accounts.split())
    return [(key, refused) for key, _, refused in pairs]


def read_answers(suspension: Suspension, given: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the answers of a client to questions of tools, by call; None if one of them has none."""
    found: dict[str, dict[str, Any]] = {}
    for key, call, own in _keys(suspension):
        if call.account is not None:
            continue
        answer = given.get(key)
        if not isinstance(answer, Mapping):
            return None
        found.setdefault(str(call.id), {})[own] = dict(answer)
    return found


def read_declined(suspension: Suspension, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return, by call, the answers of a client that did not open the page of an account."""
    declined: dict[str, dict[str, Any]] = {}
    for key, call, own in _keys(suspension):
        answer = given.get(key)
        if call.account is not None and isinstance(answer, Mapping) and answer.get("action") != "accept":
            declined[str(call.id)] = {own: dict(answer)}
    return declined


def _keys(suspension: Suspension) -> Iterator[tuple[str, WaitingCall, str]]:
    """Yield the key for the client, the call and the key of its tool, for each question."""
    asked = [(call, own) for call in suspension.waiting for own in call.questions]
    for number, (call, own) in enumerate(asked, 1):
        yield f"{KEY}{suspension.secret}.{number}", call, own


def _named(call: WaitingCall, question: Mapping[str, Any]) -> Question:
    """Return a question whose message names the tool that asks."""
    params = dict(question["params"])
    if isinstance(params.get("message"), str):
        verb = "asks: " if call.account is None else "waits: "
        params["message"] = f"{call.title} (line {call.line} of the script) {verb}{params['message']}"
    return Question(question["method"], params)
