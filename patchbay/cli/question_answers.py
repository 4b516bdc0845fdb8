"""Questions of a server, answered by flags or by the person at the terminal.

Elicitation: `--answer NAME=VALUE` fills in, the terminal asks for what is missing, `--decline` says no; without either
the answer is "cancel", and a sentence says how to answer. Sampling is refused unless `--sample TEXT` is the answer.
Values get the types that the server's schema wants, and are checked against it before they are sent.
Sources: JN-71; MCP specification, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from patchbay.cli.messages import note, printable
from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.errors import McpFailure
from patchbay.errors import ConfigError

INVALID_PARAMS = -32602
REFUSED = -1
"""What the specification gives as the code of a person's refusal of sampling."""

Json = dict[str, Any]
Given = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Terminal:
    """The person at the terminal, whatever standard input and output are."""

    ears: IO[str]
    mouth: IO[str]

    def say(self, text: str) -> None:
        """Show a line."""
        self.mouth.write(printable(text) + "\n")
        self.mouth.flush()

    def ask(self, text: str) -> str | None:
        """The person's line, without its end; None for the end of input (Ctrl-D)."""
        self.mouth.write(printable(text) + " ")
        self.mouth.flush()
        line = self.ears.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def terminal() -> Iterator[Terminal | None]:
    """The terminal of this process, None when it has none."""
    with ExitStack() as stack:
        try:
            ears = stack.enter_context(Path("/dev/tty").open(encoding="utf-8", errors="replace"))
            mouth = stack.enter_context(Path("/dev/tty").open("w", encoding="utf-8", errors="replace"))
        except OSError:
            yield None
            return
        yield Terminal(ears, mouth)


@dataclass
class Answers:
    """What a server's questions are answered with. `quiet` clears the terminal of progress while somebody is asked."""

    given: Given = field(default_factory=dict)
    decline: bool = False
    sample: str | None = None
    roots: tuple[str, ...] = ()
    interactive: bool = False
    quiet: Callable[[], AbstractContextManager[Any]] = ExitStack
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def questions(self) -> frozenset[str]:
        """What a server may ask for; folders only when there are some to name."""
        return frozenset({"elicitation", "sampling"} | ({"list_roots"} if self.roots else set()))

    def __call__(self, method: str, params: Mapping[str, Any]) -> Json:
        """The result of one question. Raises McpFailure to refuse."""
        if method == "roots/list":
            return {"roots": [{"uri": Path(root).resolve().as_uri(), "name": Path(root).name} for root in self.roots]}
        if method == "sampling/createMessage":
            return self._sampled(params)
        with self.lock, self.quiet():
            return self._elicited(params)

    def _sampled(self, params: Mapping[str, Any]) -> Json:
        if self.sample is None:
            asked = _words(params)
            note(
                f"The server asks for a model's answer (sampling): {asked}\n"
                "Refused: there is no model here. To answer it yourself: --sample TEXT"
            )
            raise McpFailure(REFUSED, "The user refused the sampling request; there is no model on this command line")
        content = {"type": "text", "text": self.sample}
        return {"role": "assistant", "content": content, "model": "command-line", "stopReason": "endTurn"}

    def _elicited(self, params: Mapping[str, Any]) -> Json:
        message = str(params.get("message", ""))
        if self.decline:
            note(f"The server asks: {message}\nDeclined.")
            return {"action": "decline"}
        if params.get("mode") == "url":
            return self._visited(message, str(params.get("url", "")))
        schema = params.get("requestedSchema") or {}
        if not _readable(schema):
            note(f"The server asks: {message}\nRefused: what it wants to know is in no form that can be read")
            raise McpFailure(INVALID_PARAMS, "requestedSchema: expected an object schema with properties by name")
        properties: Mapping[str, Any] = schema.get("properties") or {}
        content = coerce_arguments({name: self.given[name] for name in properties if name in self.given}, schema)
        for name, value in content.items():
            problem = _problem(value, properties[name], schema)
            if problem:
                note(f"--answer {name}=: {problem}")
                return {"action": "cancel"}
        missing = [name for name in properties if name not in content and "default" not in properties[name]]
        needed = [name for name in missing if name in schema.get("required", ())]
        if self.given and not needed:
            return {"action": "accept", "content": {**_defaults(properties), **content}}
        if self.interactive:
            with terminal() as person:
                if person is not None:
                    return _asked(person, message, schema, content)
        flags = " ".join(f"--answer {name}=..." for name in needed or missing or properties)
        note(f"The server asks: {message}\nNobody here to answer; to answer it: {flags or '--answer'}, or --decline")
        return {"action": "cancel"}

    def _visited(self, message: str, url: str) -> Json:
        if self.interactive:
            with terminal() as person:
                if person is not None:
                    person.say(f"The server asks: {message}\nIt wants you to visit: {url}")
                    return {
                        "action": {"y": "accept", "n": "decline"}.get(_yes(person, "Have you done so? (y/n)"), "cancel")
                    }
        note(f"The server asks: {message}\nIt wants somebody to visit {url}; nobody here to do so")
        return {"action": "cancel"}


def _asked(person: Terminal, message: str, schema: Mapping[str, Any], content: Json) -> Json:
    """The person fills in what is not known yet; an empty line is the default, or nothing; Ctrl-D cancels."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    person.say(f"The server asks: {message}  (Ctrl-D cancels)")
    if not properties:
        return {"action": {"y": "accept", "n": "decline"}.get(_yes(person, "Agree? (y/n)"), "cancel")}
    for name, one in properties.items():
        if name in content:
            continue
        needed = name in schema.get("required", ())
        while True:
            said = person.ask(_prompt(name, one, needed))
            if said is None:
                person.say("")
                return {"action": "cancel"}
            if not said and "default" in one:
                content[name] = one["default"]
                break
            if not said and not needed:
                break
            value = coerce_arguments({name: said}, schema)[name]
            problem = _problem(value, one, schema)
            if problem is None:
                content[name] = value
                break
            person.say(f"  {problem}")
    return {"action": "accept", "content": content}


def _yes(person: Terminal, question: str) -> str:
    said = (person.ask(question) or "").strip().lower()
    return said[:1] if said[:1] in ("y", "n") else ""


def _prompt(name: str, one: Mapping[str, Any], needed: bool) -> str:
    choices = one.get("enum") or [row.get("const") for row in one.get("oneOf", ()) if isinstance(row, dict)]
    parts = [str(one.get("title") or ""), str(one.get("description") or "")]
    parts += [f"one of {', '.join(map(str, choices))}"] if choices else []
    parts += [f"default {json.dumps(one['default'])}"] if "default" in one else []
    about = "; ".join(part for part in parts if part and part != name)
    return f"  {name}{' (required)' if needed else ''}{f' [{about}]' if about else ''}:"


def _problem(value: Any, one: Any, schema: Mapping[str, Any]) -> str | None:
    """What is wrong with a value, in a sentence."""
    from patchbay.arguments import problems, validator

    try:
        checker = validator({**one, "$defs": schema.get("$defs", {})})
    except (ConfigError, TypeError):  # no schema, or none that is whole in itself: the server says what it thinks
        return None
    wrong = problems(checker, value)
    return f"expected another value: {wrong[0]['message']}" if wrong else None


def _defaults(properties: Mapping[str, Any]) -> Json:
    return {name: one["default"] for name, one in properties.items() if "default" in one}


def _readable(schema: Any) -> bool:
    """Whether this is the schema of some named values, so that they can be asked for."""
    if not isinstance(schema, dict):
        return False
    properties, required = schema.get("properties") or {}, schema.get("required", [])
    return (
        isinstance(properties, dict)
        and isinstance(required, list)
        and all(isinstance(one, dict) for one in properties.values())
        and all(isinstance(one.get(key, []), list) for one in properties.values() for key in ("enum", "oneOf"))
    )


def _words(params: Mapping[str, Any]) -> str:
    """The last message of a sampling request, shortened."""
    messages = params.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    content = (last.get("content") if isinstance(last, dict) else None) or {}
    first = content[0] if isinstance(content, list) and content else content
    text = str(first.get("text", "")) if isinstance(first, dict) else ""
    return json.dumps(text if len(text) <= 200 else f"{text[:200]}...", ensure_ascii=False)
