"""The `context` parameter of a Python function: report, ask, store state, use the hub.

All methods are plain calls, in `def` and `async def` alike. A question raises MissingCapability before it is sent when
the caller did not declare that it can answer. Questions get the keys ask-1, ask-2, ... in order, unless the author
names them: a retry replays the answers by key, so a function must ask in the same order each time.

Source: MCP specification, client features, and InputRequiredResult of revision 2026-07-28.
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
from patchbay.events import LOG_LEVELS, Detach, Event, Log, Progress, Question, ToolUse
from patchbay.outputs.conversion import clean, of_json

CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The client capability that each method of a question needs."""

KINDS = ("tools", "resources", "prompts")
"""What a server may announce as changed."""

PARTS = ("variables", "servers")
"""The keys of the context."""


class Context:
    """A running call, as its function sees it."""

    def __init__(self, call: Call, emit: Callable[[Event], None], ask: Callable[[Mapping[str, Question]], Any]) -> None:
        self._call = call
        self._emit = emit
        self._ask = ask
        self._asked = 0

    def __getitem__(self, part: str) -> dict[str, str]:
        """Return the texts of variables (`context["variables"]`) or the definitions of servers (`context["servers"]`),
        by name.

        Raises KeyError for any other key: secrets are never returned.
        """
        if part not in PARTS:
            raise KeyError(f"the context has {' and '.join(PARTS)}; not {part!r:.80}")
        return self._hub(f"the {part} of the context").configured(part, self._call)

    def get(self, part: str, default: Any = None) -> Any:
        """Return a part of the context, or the default for an unknown part."""
        return self[part] if part in PARTS else default

    def __contains__(self, part: object) -> bool:
        return part in PARTS

    def keys(self) -> tuple[str, ...]:
        """Return the parts of the context."""
        return PARTS

    def __iter__(self) -> Iterator[str]:
        return iter(PARTS)

    @property
    def server(self) -> str:
        """The name of the function's server."""
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
        """Whether the caller has cancelled the call."""
        return bool(self._call.cancelled)

    def left(self) -> float:
        """Return the seconds until the call's deadline, never negative."""
        return self._call.left()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress: a finite number that grows, in the unit of `total`. Raises ToolFailed."""
        for name, value in (("progress", progress), ("total", total)):
            if not (value is None and name == "total") and not _is_finite(value):
                raise ToolFailed(f"{name} must be a finite number; not {value!r:.80}")
        self._emit(Progress(progress, total, message if message is None else _text("message", message)))

    def log(self, message: Any, level: str = "info", logger: str | None = None) -> None:
        """Send a log line (any JSON value).

        Raises ToolFailed for a level that MCP does not define, and for a logger that is not a string.
        """
        if level not in LOG_LEVELS:
            raise ToolFailed(f"no log level {level!r}; expected one of {', '.join(LOG_LEVELS)}")
        shown = of_json(clean(message) if type(message) is str else message).value
        logger = logger if logger is None else _text("logger", logger)
        self._emit(Log(level, shown, logger))

    def ask(self, questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the caller several questions at once; the answers have the same keys.

        Raises MissingCapability, and ToolFailed when a question has no answer, or the content of a form does not fit
        its schema (MCP specification, client/elicitation).
        """
        for question in questions.values():
            self._check(question.method)
            _form_validator(question)
        answers = self._ask(dict(questions))
        unanswered = [key for key in questions if not isinstance(_of(answers, key), Mapping)]
        if unanswered:
            raise ToolFailed(f"the caller did not answer {', '.join(repr(key) for key in unanswered)}")
        for key, question in questions.items():
            _check_form(key, question, answers[key])
        return {key: dict(answers[key]) for key in questions}

    def elicit(self, message: str, schema: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Ask the user to fill in a form: `{"action": "accept" | "decline" | "cancel", "content": {...}}`.

        `schema` is a JSON Schema of an object with properties of primitive types. Raises ToolFailed for an invalid
        schema, and when accepted content does not fit it.
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

        `messages` is a text or a list of MCP sampling messages; `options` are further members of the request, such as
        `system_prompt` or `temperature`.
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
        """Declare that the rest takes long: the caller may disconnect and fetch the result later.

        A client of 2026-07-28 that supports tasks gets a task, one of 2025-11-25 with a session resumes the stream. Any
        other client stays connected; with `required`, the call fails for it.
        """
        self._emit(Detach(required))

    @property
    def state(self) -> Memory:
        """The server's own state: JSON values under string keys."""
        return self._hub("its state").state(self.server, self._call)

    def read(self, uri: str) -> dict[str, Any]:
        """Read a resource of the hub: `{"uri", "mimeType", "text" | "blob"}`. Raises ResourceNotFound, ToolFailed."""
        return self._hub(f"reading {uri}").read(uri, self._call)

    def call(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool of a server and return its result with `content`, `structuredContent` and `isError`."""
        hub = self._hub(f"calling {server}.{tool}")
        self._emit(ToolUse(f"{server}.{tool}", arguments))
        return hub.call(server, tool, arguments, self._call)

    def call_quietly(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool like `call`, without reporting it to the caller: for a server that stores data through another
        one.
        """
        return self._hub(f"calling {server}.{tool}").call(server, tool, arguments, self._call)

    def start(self, function: str, /, **arguments: Any) -> None:
        """Start another function of this definition independently, with JSON arguments; it continues after this call.

        Its result is discarded, so it stores results in `state`. It ends with the hub, and at the latest after one
        hour. Raises ToolFailed when too many run.
        """
        self._hub(f"starting {function}").start(function, arguments, self._call)

    @property
    def folder(self) -> Path:
        """The folder for this server's own files: `folder` of its configuration, else one in the hub's data folder.

        It may not exist yet. For definitions that run inside the hub: a sandbox does not see it.
        """
        return self._hub("its folder").folder(self.server)

    def kept(self, make: Callable[[Context], Any]) -> Any:
        """Return the object that `make` made at the first request in this process, shared by all functions of this
        server.

        It lasts until the hub ends, which calls its `close`; after a change of the server's folder, a new one is made.
        `make` gets a context that outlives the call and can announce changes. For definitions that run inside the hub:
        raises ToolFailed elsewhere.
        """
        return self._hub("keeping something").kept(f"{self.server} {self.folder}", lambda: make(self))

    def uses(self, name: str, input: Any = None, id: str | None = None) -> None:
        """Report that the work uses a tool outside this hub, such as an agent's own tool. Raises ToolFailed."""
        self._emit(ToolUse(_text("name", name), input, id if id is None else _text("id", id)))

    def changed(self, kind: str = "tools") -> None:
        """Announce that this server's `tools`, `resources` or `prompts` may have changed."""
        if kind not in KINDS:
            raise ToolFailed(f"{kind!r} cannot change; expected one of {', '.join(KINDS)}")
        self._hub("announcing a change").changed(self.server, kind)

    def updated(self, uri: str) -> None:
        """Announce that the content of one of this server's resources changed."""
        self._hub("announcing an update").updated(self.server, uri)

    def emit(self, event: str, data: Mapping[str, Any], id: str = "") -> str:
        """Emit an event of a type that the definition declares in `EVENTS`; return its id.

        The hub stores the event before this returns. `id` is a stable name of what happened, such as the id that
        another system gives it; without it the hub makes one. Raises ToolFailed for an unknown type, and for data that
        does not fit it.
        """
        value = of_json(data).value
        if not isinstance(value, dict):
            raise ToolFailed(f"the data of an event has to be an object with fields; not {data!r:.80}")
        return self._hub(f"emitting {event}").emit(self.server, _text("event", event), value, _text("id", id))

    def _hub(self, purpose: str) -> Hub:
        if self._call.hub is None:
            raise ToolFailed(f"{purpose} needs a hub, and this call runs without one")
        return self._call.hub

    def _check(self, method: str) -> None:
        capability = CAPABILITY.get(method)
        if capability is None:
            raise ToolFailed(f"{method!r} is not a question; expected one of {', '.join(CAPABILITY)}")
        if capability not in self.capabilities:
            raise MissingCapability({capability: {}})

    def _one(self, method: str, params: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        self._asked += 1
        key = key or f"ask-{self._asked}"
        return self.ask({key: Question(method, params)})[key]


def _of(answers: Any, key: str) -> Any:
    return answers.get(key) if isinstance(answers, Mapping) else None


def _form_validator(question: Question) -> Any:
    """Return the validator of a question's form; None for a question without a form. Raises ToolFailed."""
    schema = question.params.get("requestedSchema")
    if question.method != "elicitation/create" or not isinstance(schema, Mapping):
        return None
    try:
        return validator(schema)
    except (ConfigError, TypeError) as problem:
        raise ToolFailed(f"the form of a question has an invalid schema: {problem}") from problem


def _check_form(key: str, question: Question, answer: Mapping[str, Any]) -> None:
    """Raise ToolFailed that names the field of an accepted form that does not fit its schema."""
    form = _form_validator(question) if answer.get("action") == "accept" else None
    wrong = [] if form is None else problems(form, answer.get("content", {}))
    if wrong:
        raise ToolFailed(f"the answer to {key!r} does not fit its form: {describe_problems(wrong)}")


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # an integer that is too large for a float
        return False


def _text(what: str, value: Any) -> str:
    """Return a string that UTF-8 can encode. Raises ToolFailed for any other type."""
    if not isinstance(value, str):
        raise ToolFailed(f"{what} must be a string; not {value!r:.80}")
    return clean(value)


def _camel(name: str) -> str:
    """Return the MCP spelling of a name: `systemPrompt` for `system_prompt`."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
