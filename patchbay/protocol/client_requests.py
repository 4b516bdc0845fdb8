"""Questions to the caller: one interface for authors, two protocols for clients.

Up to 2025-11-25 a question is a request on the open stream; its answer is another message, which any process passes on
through the session's topic of the bus. In 2026-07-28 the call ends with an InputRequiredResult; the retry brings the
answers, and the answers of earlier rounds travel sealed in `requestState`, bound to principal, method, target,
arguments and time, for one use.
Source: MCP specification 2025-11-25, client/elicitation and client/sampling; 2026-07-28, multi-round-trip requests.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Mapping
from hashlib import sha256
from typing import Any, Protocol

from itsdangerous import BadData

from patchbay.access.timed_signatures import timed_serializer
from patchbay.activation import PAUSE, Call, Cancelled, pauses
from patchbay.errors import InvalidParams, PatchbayError, TimedOut, ToolFailed
from patchbay.events import Ask, Question
from patchbay.jsonrpc import Failure, Message, Request, Result, Sign, dump_json, encode, message, parse
from patchbay.messages.callers import LegacySession
from patchbay.protocol.results.event_limits import is_question_too_large
from patchbay.store import Bus, Journal
from patchbay.topics import ANSWERS, REQUEST_STATES
from patchbay.views.sse import MAX_EVENT_BYTES

STATE_SECONDS = 600
"""Default lifetime of a requestState."""


class InputRequired(PatchbayError):
    """The call needs answers to continue: `result` is the InputRequiredResult."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("input required")
        self.result = result


class ClientRequester(Protocol):
    """Sends the questions of one call to its caller."""

    def ask(self, ask: Ask, call: Call) -> Generator[Message | Sign, None, Mapping[str, Any]]: ...


class OpenStream:
    """Asks by requests on the stream of the call (up to 2025-11-25)."""

    def __init__(self, bus: Bus, session: LegacySession) -> None:
        self._bus = bus
        self._session = session

    def ask(self, ask: Ask, call: Call) -> Generator[Message | Sign, None, Mapping[str, Any]]:
        """Send every question, then wait for every answer, until the deadline of the call."""
        ids = {key: f"ask-{secrets.token_urlsafe(9)}" for key in ask.questions}
        with self._bus.subscribe([answer_topic(self._session, id) for id in ids.values()]) as mailbox:
            for key, question in ask.questions.items():
                request = Request(ids[key], question.method, question.params)
                if is_question_too_large(request):
                    raise ToolFailed(f"the question {key} has more than the {MAX_EVENT_BYTES} bytes of an event")
                yield request
            answers: dict[str, Any] = {}
            for wait in pauses(call):
                got = mailbox.get(wait)
                if got is not None:
                    key, value = _read_answer(got[1], ids)
                    answers[key] = _fitting(key, ask.questions[key].method, value)
                if len(answers) == len(ids):
                    return answers
                _still_wanted(call)
                yield PAUSE
        return answers


def _read_answer(data: bytes, ids: Mapping[str, str]) -> tuple[str, Any]:
    answer = message(parse(data))
    if isinstance(answer, Failure):
        raise ToolFailed(f"the client did not answer: {answer.error.get('message', 'no reason given')}")
    assert isinstance(answer, Result)
    return next(key for key, id in ids.items() if id == answer.id), answer.result


def _fitting(key: str, method: str, answer: Any) -> Any:
    """Return the answer unchanged. Raises ToolFailed for an invalid answer, because a stream asks only once."""
    if not fits(method, answer):
        raise ToolFailed(f"the client's answer to {key} is not an answer to {method}")
    return answer


def _still_wanted(call: Call) -> None:
    if call.ends_with_credentials():
        raise Cancelled(call.cancelled.describe())
    if call.left() <= 0:
        raise TimedOut("timed out waiting for the client's answer")


def answer_topic(session: LegacySession, id: str | int | None) -> str:
    """Return the topic for the answer to a question. Only messages of this session are published there."""
    return f"{ANSWERS}{session.nonce}/{id}"


def deliver(bus: Bus, session: LegacySession, answer: Result | Failure) -> None:
    """Publish a client's answer for the waiting activation; an unexpected answer is dropped."""
    bus.publish(answer_topic(session, answer.id), encode(answer))


class RetriedRequester:
    """Asks by ending the call with the questions, and replays earlier answers (2026-07-28)."""

    def __init__(self, states: States, request: Request, principal: str) -> None:
        self._states = states
        self._bound = _binding(request, principal)
        self._answers = states.answers(request, self._bound)

    def ask(self, ask: Ask, call: Call) -> Generator[Message | Sign, None, Mapping[str, Any]]:
        """Return all answers. Raises InputRequired with the questions that have no answer yet."""
        unanswered = {key: question for key, question in ask.questions.items() if not self._has_answer(key, question)}
        if unanswered:
            raise InputRequired(
                {
                    "resultType": "input_required",
                    "inputRequests": {key: _input_request(question) for key, question in unanswered.items()},
                    "requestState": self._states.seal(self._bound, self._answers),
                }
            )
        yield from ()
        return {key: self._answers[key] for key in ask.questions}

    def _has_answer(self, key: str, question: Question) -> bool:
        return fits(question.method, self._answers.get(key))


def _input_request(question: Question) -> dict[str, Any]:
    """Return a question in the form of 2026-07-28, where a URL has no `elicitationId`."""
    params = {key: value for key, value in question.params.items() if key != "elicitationId"}
    return {"method": question.method, "params": params}


def fits(method: str, answer: Any) -> bool:
    """Whether a value has the shape of an answer to this kind of question."""
    if not isinstance(answer, dict):
        return False
    if method == "elicitation/create":
        accepted = answer.get("action") == "accept"
        return answer.get("action") in ("accept", "decline", "cancel") and (
            not accepted or isinstance(answer.get("content", {}), dict)
        )
    if method == "sampling/createMessage":
        return isinstance(answer.get("role"), str) and "content" in answer
    return isinstance(answer.get("roots"), list)


def _binding(request: Request, principal: str) -> str:
    salient = {k: v for k, v in request.params.items() if k not in ("_meta", "inputResponses", "requestState")}
    text = dump_json([request.method, salient, principal], is_sorted=True)
    return sha256(text).hexdigest()


class States:
    """Seals and opens `requestState`, which is valid for `seconds` and for one use.

    Each state has a nonce. A use is an entry of the journal; over all processes, the first entry is valid.
    """

    def __init__(self, key: bytes, journal: Journal, seconds: int = STATE_SECONDS) -> None:
        self._serializer = timed_serializer(key, "request-state", journal.now)
        self._journal = journal
        self._seconds = seconds

    def seal(self, bound: str, answers: Mapping[str, Any]) -> str:
        """Return the state of a call as a string, which only the same call can use."""
        return str(self._serializer.dumps([bound, dict(answers), secrets.token_urlsafe(16)]))

    def answers(self, request: Request, bound: str) -> dict[str, Any]:
        """Return all answers so far, those of earlier rounds first. Raises InvalidParams."""
        fresh = request.params.get("inputResponses", {})
        if not isinstance(fresh, dict):
            raise InvalidParams("params.inputResponses has to be an object of answers by key")
        state = request.params.get("requestState")
        # Open the state last, so that a refused request does not use it.
        return (self._open(state, bound) if state is not None else {}) | fresh

    def _open(self, state: Any, bound: str) -> dict[str, Any]:
        try:
            of, answers, nonce = self._serializer.loads(state, max_age=self._seconds)
        except (BadData, ValueError, TypeError) as problem:
            raise InvalidParams("params.requestState is not from this server, or it is too old") from problem
        if of != bound:
            raise InvalidParams("params.requestState belongs to another call: send the same method, name and arguments")
        self._use(str(nonce))
        return dict(answers)

    def _use(self, nonce: str) -> None:
        topic = REQUEST_STATES + nonce
        own = self._journal.append(topic, b"", keep=self._seconds + 1)
        if self._journal.read(topic, limit=1)[0].seq != own:
            raise InvalidParams(
                "params.requestState was used before, and is good for one retry: send the call again without it"
            )
