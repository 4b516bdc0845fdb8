"""Answers to questions of a server, from options or from the person at the terminal.

Elicitation: `--answer NAME=VALUE` gives a value, the terminal asks for missing values, `--decline` declines. Without a
terminal and options the answer is "cancel", and a message explains how to answer. Sampling is refused without `--sample
TEXT`. Values get the types of the server's schema, and are checked against it before they are sent.
Sources: MCP specification, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from patchbay.cli.terminal.messages import indent_lines, make_printable, write_note
from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.errors import McpFailure
from patchbay.errors import ConfigError

INVALID_PARAMS = -32602
USER_REJECTED = -1
"""The error code of the specification for sampling that the user rejected."""

Json = dict[str, Any]
Given = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Terminal:
    """The terminal of the process, independent of standard input and output."""

    reader: IO[str]
    writer: IO[str]

    def print_line(self, text: str) -> None:
        """Show a line."""
        self.writer.write(make_printable(text) + "\n")
        self.writer.flush()

    def ask(self, text: str) -> str | None:
        """Ask for a line; return it without its line end, None at the end of input (Ctrl-D)."""
        self.writer.write(make_printable(text) + " ")
        self.writer.flush()
        line = self.reader.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def open_terminal() -> Iterator[Terminal | None]:
    """Open the terminal of this process; None when it has no terminal."""
    with ExitStack() as stack:
        try:
            reader = stack.enter_context(Path("/dev/tty").open(encoding="utf-8", errors="replace"))
            writer = stack.enter_context(Path("/dev/tty").open("w", encoding="utf-8", errors="replace"))
        except OSError:
            yield None
            return
        yield Terminal(reader, writer)


@dataclass
class Answers:
    """The answers to a server's questions. `quiet` hides the progress while the terminal asks.

    With `are_left_to_page` the client supports no forms, so that pages of the hub have the questions.
    """

    given: Given = field(default_factory=dict)
    decline: bool = False
    sample: str | None = None
    roots: tuple[str, ...] = ()
    interactive: bool = False
    are_left_to_page: bool = False
    quiet: Callable[[], AbstractContextManager[Any]] = ExitStack
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def questions(self) -> frozenset[str]:
        """The kinds of questions that the client supports; roots only when `--root` names directories."""
        asked = {"sampling"} if self.are_left_to_page else {"elicitation", "sampling"}
        return frozenset(asked | ({"list_roots"} if self.roots else set()))

    @property
    def has_answers(self) -> bool:
        """Whether this command can answer a question with a form: by an option, or by the person at the terminal."""
        return self.interactive or self.decline or bool(self.given)

    def __call__(self, method: str, params: Mapping[str, Any]) -> Json:
        """Answer one question. Raises McpFailure to refuse it."""
        if method == "roots/list":
            return {"roots": [{"uri": Path(root).resolve().as_uri(), "name": Path(root).name} for root in self.roots]}
        if method == "sampling/createMessage":
            return self._answer_sampling(params)
        with self.lock, self.quiet():
            return self._answer_elicitation(params)

    def _answer_sampling(self, params: Mapping[str, Any]) -> Json:
        if self.sample is None:
            message = _last_message(params)
            write_note(
                f"The server asks for the answer of a model (sampling): {message}\n"
                "Refused: this command has no model. To answer yourself: --sample TEXT"
            )
            raise McpFailure(
                USER_REJECTED, "The user refused the sampling request; there is no model on this command line"
            )
        content = {"type": "text", "text": self.sample}
        return {"role": "assistant", "content": content, "model": "command-line", "stopReason": "endTurn"}

    def _answer_elicitation(self, params: Mapping[str, Any]) -> Json:
        message = indent_lines(str(params.get("message", "")))
        if self.decline:
            write_note(f"The server asks: {message}\nDeclined.")
            return {"action": "decline"}
        if params.get("mode") == "url":
            return self._answer_url(message, str(params.get("url", "")))
        schema = params.get("requestedSchema") or {}
        if not _is_form_schema(schema):
            write_note(f"The server asks: {message}\nRefused: its schema is not an object schema with properties")
            raise McpFailure(INVALID_PARAMS, "requestedSchema: expected an object schema with properties by name")
        properties: Mapping[str, Any] = schema.get("properties") or {}
        content = coerce_arguments({name: self.given[name] for name in properties if name in self.given}, schema)
        for name, value in content.items():
            problem = _find_problem(value, properties[name], schema)
            if problem:
                write_note(f"--answer {name}=: {problem}")
                return {"action": "cancel"}
        missing = [name for name in properties if name not in content and "default" not in properties[name]]
        needed = [name for name in missing if name in schema.get("required", ())]
        if self.given and not needed:
            return {"action": "accept", "content": {**_defaults(properties), **content}}
        if self.interactive:
            with open_terminal() as person:
                if person is not None:
                    return _ask_person(person, message, schema, content)
        flags = " ".join(f"--answer {name}=..." for name in needed or missing or properties)
        write_note(
            f"The server asks: {message}\nThere is no terminal to answer it. Use: {flags or '--answer'}, or --decline"
        )
        return {"action": "cancel"}

    def _answer_url(self, message: str, url: str) -> Json:
        if self.interactive:
            with open_terminal() as person:
                if person is not None:
                    person.print_line(f"The server asks: {message}\nIt asks you to visit: {url}")
                    return {
                        "action": {"y": "accept", "n": "decline"}.get(
                            _ask_yes_or_no(person, "Have you visited it? (y/n)"), "cancel"
                        )
                    }
        write_note(f"The server asks: {message}\nIt asks you to visit {url}, but there is no terminal to confirm it")
        return {"action": "cancel"}


def _ask_person(person: Terminal, message: str, schema: Mapping[str, Any], content: Json) -> Json:
    """Ask the person for missing values. An empty line gives the default or no value; Ctrl-D cancels."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    person.print_line(f"The server asks: {message}  (Ctrl-D cancels)")
    if not properties:
        return {"action": {"y": "accept", "n": "decline"}.get(_ask_yes_or_no(person, "Agree? (y/n)"), "cancel")}
    for name, one in properties.items():
        if name in content:
            continue
        needed = name in schema.get("required", ())
        while True:
            text = person.ask(_format_prompt(name, one, needed))
            if text is None:
                person.print_line("")
                return {"action": "cancel"}
            if not text and "default" in one:
                content[name] = one["default"]
                break
            if not text and not needed:
                break
            value = coerce_arguments({name: text}, schema)[name]
            problem = _find_problem(value, one, schema)
            if problem is None:
                content[name] = value
                break
            person.print_line(f"  {problem}")
    return {"action": "accept", "content": content}


def _ask_yes_or_no(person: Terminal, question: str) -> str:
    text = (person.ask(question) or "").strip().lower()
    return text[:1] if text[:1] in ("y", "n") else ""


def _format_prompt(name: str, one: Mapping[str, Any], needed: bool) -> str:
    choices = one.get("enum") or [row.get("const") for row in one.get("oneOf", ()) if isinstance(row, dict)]
    parts = [str(one.get("title") or ""), str(one.get("description") or "")]
    parts += [f"one of {', '.join(map(str, choices))}"] if choices else []
    parts += [f"default {json.dumps(one['default'])}"] if "default" in one else []
    about = "; ".join(part for part in parts if part and part != name)
    return f"  {name}{' (required)' if needed else ''}{f' [{about}]' if about else ''}:"


def _find_problem(value: Any, one: Any, schema: Mapping[str, Any]) -> str | None:
    """Describe the problem of a value in a sentence; None for a valid value."""
    from patchbay.arguments import problems, validator

    try:
        checker = validator({**one, "$defs": schema.get("$defs", {})})
    except (ConfigError, TypeError):  # an invalid or incomplete schema: the server checks the value
        return None
    wrong = problems(checker, value)
    return f"expected another value: {wrong[0]['message']}" if wrong else None


def _defaults(properties: Mapping[str, Any]) -> Json:
    return {name: one["default"] for name, one in properties.items() if "default" in one}


def _is_form_schema(schema: Any) -> bool:
    """Whether the schema is an object schema whose properties a terminal can ask for."""
    if not isinstance(schema, dict):
        return False
    properties, required = schema.get("properties") or {}, schema.get("required", [])
    return (
        isinstance(properties, dict)
        and isinstance(required, list)
        and all(isinstance(one, dict) for one in properties.values())
        and all(isinstance(one.get(key, []), list) for one in properties.values() for key in ("enum", "oneOf"))
    )


def _last_message(params: Mapping[str, Any]) -> str:
    """The last message of a sampling request, shortened."""
    messages = params.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    content = (last.get("content") if isinstance(last, dict) else None) or {}
    first = content[0] if isinstance(content, list) and content else content
    text = str(first.get("text", "")) if isinstance(first, dict) else ""
    return json.dumps(text if len(text) <= 200 else f"{text[:200]}...", ensure_ascii=False)
