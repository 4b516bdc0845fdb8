"""Questions that come up inside a script: which ones tools may ask, and how the caller gets them.

A call ends with the questions of its tool, and is made again with the answers. The caller's client gets those that it
can show, and the page of the run has all of them. The person who answers sees which tool asks. A call for which its
caller has to connect an account ends too; the question is the page where the caller does so, and the call is made again
once the account is there. The keys of the questions have a secret of the suspended run, so that no client answers
before it was asked.
Source: MCP specification, client/elicitation; 2026-07-28, multi-round-trip requests.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchbay.access.principals import SCHEDULE_IDS
from patchbay.activation import Call
from patchbay.caller_accounts.pages import ELICITATION
from patchbay.events import Question
from patchbay.scripting.suspended.question_digests import digest_of_question
from patchbay.scripting.suspended.suspension import Suspension, WaitingCall

KEY = "script-question-"

Answers = Mapping[str, Mapping[str, Any]]
"""The answers by the id of the call (as text), and then by the key of the tool."""

Account = tuple[str, str]
"""An account that a call needs: the key of its server, and the id of the account that it refused, as in `Ask`."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question of a tool: the call that waits, the key of the tool for it, and what it asked (`WaitingCall`)."""

    call: WaitingCall
    own: str
    asked: Mapping[str, Any]

    @property
    def params(self) -> Mapping[str, Any]:
        """The params of the question, as its tool wrote them."""
        params: Mapping[str, Any] = self.asked["params"]
        return params

    def for_client(self) -> Question:
        """Return the question with a message that names the tool that asks."""
        return _named([self.call], self.asked)

    def answer(self, value: Mapping[str, Any]) -> Answers:
        """Return an answer to the question, as a run stores it."""
        return {str(self.call.id): {self.own: dict(value)}}


def find_capabilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities by which tools inside a script may ask: a run waits for no model, and for no roots."""
    declared = capabilities.get(ELICITATION)
    return {ELICITATION: dict(declared)} if isinstance(declared, Mapping) else {}


def capabilities_of_run(call: Call) -> dict[str, Any]:
    """Return the capabilities that allow tools to ask in a run that can wait for a person.

    They are those of the client of its call. For a client that shows no questions, the page of the run shows forms; a
    schedule has no person who opens the page, so that its tools may not ask.
    """
    declared = find_capabilities(call.capabilities)
    has_page = not call.principal.startswith(SCHEDULE_IDS)
    return declared or ({ELICITATION: {}} if has_page else {})


def can_answer(call: Call) -> bool:
    """Whether the client of a call gets questions of tools. A tool that another tool calls may not ask."""
    return len(call.chain) <= 1 and bool(find_capabilities(call.capabilities))


def can_show(call: Call, question: Question) -> bool:
    """Whether the client of a call shows a question: a form, or a URL to open."""
    modes = find_capabilities(call.capabilities).get(ELICITATION, {})
    mode = "url" if question.params.get("mode") == "url" else "form"
    return can_answer(call) and (mode in modes or (mode == "form" and not modes))


def open_questions(suspension: Suspension, answers: Answers) -> dict[str, OpenQuestion]:
    """Return the questions of tools that have no answer yet, by the keys that the client and the page use for them."""
    return {
        key: OpenQuestion(call, own, call.questions[own])
        for key, call, own in _keys(suspension)
        if own not in answers.get(str(call.id), {})
    }


def pages_of(suspension: Suspension, accounts: Collection[Account]) -> dict[str, Question]:
    """Return the pages where the caller of a suspended run connects some accounts, as questions to its client.

    Each account is one question, for all calls that need it.
    """
    found = {}
    for key, account, calls in _pages(suspension):
        if account in accounts:
            (question,) = calls[0].questions.values()
            found[key] = _named(calls, question)
    return found


def accounts_of(waiting: Sequence[WaitingCall]) -> str:
    """Return the accounts that waiting calls need, as the head of a run has them."""
    return write_accounts({one.account for one in waiting if one.account is not None})


def write_accounts(accounts: Collection[Account]) -> str:
    """Return accounts as the head of a run has them."""
    return " ".join(sorted(":".join(one) for one in accounts))


def read_accounts(accounts: str) -> list[Account]:
    """Return what `write_accounts` wrote."""
    pairs = (one.partition(":") for one in accounts.split())
    return [(key, refused) for key, _, refused in pairs]


def read_answers(
    suspension: Suspension, given: Mapping[str, Any], asked: Container[str]
) -> dict[str, dict[str, Any]] | None:
    """Return the answers of a client to the questions with the keys `asked`, by call; None if one of them has none."""
    found: dict[str, dict[str, Any]] = {}
    for key, call, own in _keys(suspension):
        if key not in asked:
            continue
        answer = given.get(key)
        if not isinstance(answer, Mapping):
            return None
        found.setdefault(str(call.id), {})[own] = dict(answer)
    return found


def read_declined(suspension: Suspension, given: Mapping[str, Any]) -> set[Account]:
    """Return the accounts whose pages a client was asked to open, and did not."""
    answers = {account: given.get(key) for key, account, _ in _pages(suspension)}
    return {one for one, given in answers.items() if isinstance(given, Mapping) and given.get("action") != "accept"}


def decline_calls(suspension: Suspension, declined: Collection[Account]) -> Answers:
    """Return the answers of a caller who does not connect these accounts, for each call that needs one of them."""
    calls = [one for one in suspension.waiting if one.account in declined]
    return {str(one.id): {key: {"action": "decline"} for key in one.questions} for one in calls}


def add_answers(call: WaitingCall, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return all answers of a call, as `WaitingCall.answers`: those before, and the ones given to its questions."""
    answers = {digest: list(known) for digest, known in call.answers.items()}
    for key, question in call.questions.items():
        if key in given:
            digest = digest_of_question(key, question["method"], question["params"])
            answers.setdefault(digest, []).append(given[key])
    return answers


def merge_answers(known: Answers, more: Answers) -> dict[str, dict[str, Any]]:
    """Return known answers and more of them. A question that has an answer keeps it."""
    return {id: {**more.get(id, {}), **known.get(id, {})} for id in {**known, **more}}


def _keys(suspension: Suspension) -> Iterator[tuple[str, WaitingCall, str]]:
    """Yield the key for the client, the call and the key of its tool, for each question of a tool."""
    asked = [(call, own) for call in suspension.waiting if call.account is None for own in call.questions]
    for number, (call, own) in enumerate(asked, 1):
        yield f"{KEY}{suspension.secret}.{number}", call, own


def _pages(suspension: Suspension) -> Iterator[tuple[str, Account, list[WaitingCall]]]:
    """Yield the key for the client, the account and the calls that need it, for each account."""
    needed: dict[Account, list[WaitingCall]] = {}
    for call in suspension.waiting:
        if call.account is not None:
            needed.setdefault(call.account, []).append(call)
    for number, (account, calls) in enumerate(needed.items(), 1):
        yield f"{KEY}{suspension.secret}.account-{number}", account, calls


def _named(calls: Sequence[WaitingCall], question: Mapping[str, Any]) -> Question:
    """Return a question whose message names the tool that asks, or that waits with other calls for an account."""
    first, more = calls[0], len(calls) - 1
    params = dict(question["params"])
    if isinstance(params.get("message"), str):
        others = f" and {more} more call{'s' if more > 1 else ''}" if more else ""
        verb = "asks" if first.account is None else "wait" if more else "waits"
        where = f"{first.title} (line {first.line} of the script){others}"
        params["message"] = f"{where} {verb}: {params['message']}"
    return Question(question["method"], params)
