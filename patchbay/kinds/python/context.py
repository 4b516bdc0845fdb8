"""What a Python function can do with its `context` parameter: report, ask, remember, use the hub.

All methods are plain calls, in `def` and `async def` alike. A question raises MissingCapability
before anything is sent when the caller did not declare that it can answer. Questions get the keys
ask-1, ask-2, ... in the order in which they are asked, unless the author names them: a retry
replays the answers by key, so a function has to ask in the same order each time.
Sources: DESIGN sections 1 and 5; SPEC-DIGEST 2.2 (InputRequiredResult); MCP client features.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchbay.activation import Call, Hub, Memory
from patchbay.arguments import describe_problems, problems, validator
from patchbay.errors import ConfigError, MissingCapability, ToolFailed
from patchbay.events import LOG_LEVELS, Detach, Event, Log, Progress, Question, Text, ToolUse
from patchbay.outputs import clean, of_json

CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The client capability that each kind of question needs."""

KINDS = ("tools", "resources", "prompts")

PARTS = ("variables", "servers")
"""What the context holds by name."""


class Context:
    """A running call, as the function that serves it sees it."""

    def __init__(self, call: Call, emit: Callable[[Event], None], ask: Callable[[Mapping[str, Question]], Any]) -> None:
        self._call = call
        self._emit = emit
        self._ask = ask
        self._asked = 0

    def __getitem__(self, part: str) -> dict[str, str]:
        """`context["variables"]` and `context["servers"]`: texts of variables and definitions of servers, by name.

        Raises KeyError for anything else: secrets are never given out.
        """
        if part not in PARTS:
            raise KeyError(f"the context has {' and '.join(PARTS)}; not {part!r:.80}")
        return self._hub(f"the {part} of the context").configured(part)

    def get(self, part: str, default: Any = None) -> Any:
        """The same; the default for a part that the context does not have."""
        return self[part] if part in PARTS else default

    def __contains__(self, part: object) -> bool:
        return part in PARTS

    def keys(self) -> tuple[str, ...]:
        """The parts that the context has."""
        return PARTS

    def __iter__(self) -> Iterator[str]:
        return iter(PARTS)

    @property
    def server(self) -> str:
        """The name of the server the function belongs to."""
        return self._call.server

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta` object."""
        return self._call.meta

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The ClientCapabilities object of the caller."""
        return self._call.capabilities

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer wants the answer."""
        return bool(self._call.cancelled)

    def left(self) -> float:
        """Seconds until the call's deadline, never negative."""
        return self._call.left()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is: a finite number that grows, in the unit of `total`. Raises ToolFailed."""
        for name, value in (("progress", progress), ("total", total)):
            if not (value is None and name == "total") and not _is_finite(value):
                raise ToolFailed(f"{name} is a finite number; not {value!r:.80}")
        self._emit(Progress(progress, total, message if message is None else _text("message", message)))

    def log(self, message: Any, level: str = "info", logger: str | None = None) -> None:
        """Send a log line (any JSON value).

        Raises ToolFailed for a level that MCP does not know, and for a logger that is no text.
        """
        if level not in LOG_LEVELS:
            raise ToolFailed(f"no log level {level!r}; expected one of {', '.join(LOG_LEVELS)}")
        shown = of_json(clean(message) if type(message) is str else message)
        logger = logger if logger is None else _text("logger", logger)
        self._emit(Log(level, shown.text if isinstance(shown, Text) else shown.value, logger))

    def ask(self, questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the caller several things at once; the answers come under the same keys.

        Raises MissingCapability, and ToolFailed when a question stays without an answer, or a form was
        filled in with what its schema does not allow (MCP, client/elicitation).
        """
        for question in questions.values():
            self._check(question.method)
            _form(question)
        answers = self._ask(dict(questions))
        unanswered = [key for key in questions if not isinstance(_of(answers, key), Mapping)]
        if unanswered:
            raise ToolFailed(f"the caller did not answer {', '.join(repr(key) for key in unanswered)}")
        for key, question in questions.items():
            _check_form(key, question, answers[key])
        return {key: dict(answers[key]) for key in questions}

    def elicit(self, message: str, schema: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Ask the user to fill in a form: `{"action": "accept" | "decline" | "cancel", "content": {...}}`.

        `schema` is a JSON Schema of an object with properties of primitive types. Raises ToolFailed for a
        schema that is none, and when what the user accepted does not fit it.
        """
        return self._one("elicitation/create", {"message": message, "requestedSchema": dict(schema)}, key)

    def sample(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        max_tokens: int = 1000,
        key: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Ask the caller's language model: `{"role", "content", "model", ...}`.

        `messages` is a text or a list of MCP sampling messages; `options` are further members of
        the request, such as `system_prompt` or `temperature`.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        params = {"messages": list(messages), "maxTokens": max_tokens}
        params |= {_camel(name): value for name, value in options.items()}
        return self._one("sampling/createMessage", params, key)

    def roots(self, key: str | None = None) -> list[dict[str, Any]]:
        """Ask for the caller's roots: a list of `{"uri", "name"?}`."""
        return list(self._one("roots/list", {}, key).get("roots", []))

    def background(self, required: bool = False) -> None:
        """Say that the rest takes long: the caller may hang up and fetch the result later.

        A client of 2026-07-28 that knows tasks gets a task, one of 2025-11-25 with a session comes back to
        the stream; any other stays on the line, unless the background is `required`.
        """
        self._emit(Detach(required))

    @property
    def state(self) -> Memory:
        """The server's own small memory: JSON values under string keys."""
        return self._hub("its state").state(self.server)

    def read(self, uri: str) -> dict[str, Any]:
        """A resource of the hub: `{"uri", "mimeType", "text" | "blob"}`. Raises ResourceNotFound, ToolFailed."""
        return self._hub(f"reading {uri}").read(uri, self._call)

    def call(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Use a tool of a server: its result with `content`, `structuredContent` and `isError`."""
        hub = self._hub(f"calling {server}.{tool}")
        self._emit(ToolUse(f"{server}.{tool}", arguments))
        return hub.call(server, tool, arguments, self._call)

    def call_quietly(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The same as `call`, without telling the caller of it: for what a server keeps with the help of another."""
        return self._hub(f"calling {server}.{tool}").call(server, tool, arguments, self._call)

    def start(self, function: str, /, **arguments: Any) -> None:
        """Have another function of this definition run by itself, with JSON arguments: it goes on after this call.

        Nobody waits for it and its result goes nowhere: it says what it has to say in `state`. It ends with the
        hub, and has an hour. Raises ToolFailed when too many run.
        """
        self._hub(f"starting {function}").start(function, arguments, self._call)

    @property
    def folder(self) -> Path:
        """The folder for files of this server's own, in the hub's data folder unless a setting says otherwise.

        It need not be there yet. For definitions that run inside the hub: a sandbox does not see it.
        """
        return self._hub("its folder").folder(self.server)

    def kept(self, make: Callable[[Context], Any]) -> Any:
        """What `make` gave the first time in this process, for all functions and transforms of this server.

        It lasts until the hub ends, which calls its `close`. `make` gets a context that outlives the call, through
        which changes can be announced. For definitions that run inside the hub: raises ToolFailed elsewhere.
        """
        return self._hub("keeping something").kept(self.server, lambda: make(self))

    def uses(self, name: str, input: Any = None, id: str | None = None) -> None:
        """Say that the work uses a tool that is none of this hub's: an agent's own, for example. Raises ToolFailed."""
        self._emit(ToolUse(_text("name", name), input, id if id is None else _text("id", id)))

    def changed(self, kind: str = "tools") -> None:
        """Say that this server's `tools`, `resources` or `prompts` may have changed."""
        if kind not in KINDS:
            raise ToolFailed(f"{kind!r} cannot change; expected one of {', '.join(KINDS)}")
        self._hub("announcing a change").changed(self.server, kind)

    def updated(self, uri: str) -> None:
        """Say that the content of one of this server's resources changed."""
        self._hub("announcing an update").updated(self.server, uri)

    def _hub(self, purpose: str) -> Hub:
        if self._call.hub is None:
            raise ToolFailed(f"{purpose} needs a hub, and this call runs without one")
        return self._call.hub

    def _check(self, method: str) -> None:
        capability = CAPABILITY.get(method)
        if capability is None:
            raise ToolFailed(f"{method!r} is no question; expected one of {', '.join(CAPABILITY)}")
        if capability not in self.capabilities:
            raise MissingCapability({capability: {}})

    def _one(self, method: str, params: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        self._asked += 1
        key = key or f"ask-{self._asked}"
        return self.ask({key: Question(method, params)})[key]


def _of(answers: Any, key: str) -> Any:
    return answers.get(key) if isinstance(answers, Mapping) else None


def _form(question: Question) -> Any:
    """The validator of the form that a question shows; None when it shows none. Raises ToolFailed."""
    schema = question.params.get("requestedSchema")
    if question.method != "elicitation/create" or not isinstance(schema, Mapping):
        return None
    try:
        return validator(schema)
    except (ConfigError, TypeError) as problem:
        raise ToolFailed(f"the form of a question has no proper schema: {problem}") from problem


def _check_form(key: str, question: Question, answer: Mapping[str, Any]) -> None:
    """Raises ToolFailed naming the field of an accepted form that does not fit its schema."""
    form = _form(question) if answer.get("action") == "accept" else None
    wrong = [] if form is None else problems(form, answer.get("content", {}))
    if wrong:
        raise ToolFailed(f"the answer to {key!r} does not fit its form: {describe_problems(wrong)}")


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # an integer beyond all that a JSON reader keeps
        return False


def _text(what: str, value: Any) -> str:
    """A text as UTF-8 can say it. Raises ToolFailed for what is none."""
    if not isinstance(value, str):
        raise ToolFailed(f"{what} is a text; not {value!r:.80}")
    return clean(value)


def _camel(name: str) -> str:
    """`system_prompt` as MCP spells it: `systemPrompt`."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
