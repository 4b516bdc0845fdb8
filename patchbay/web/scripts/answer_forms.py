"""The form for a question that a tool asks inside a script: fields from the schema of the answer, and what they say.

A tool asks for an object with properties of primitive types, or with lists of choices. What has no control of its own
is written as JSON. Each field shows the text that was typed, so that a wrong answer loses nothing.
Source: MCP specification, client/elicitation (requested schema).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchbay.arguments import problems, validator
from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.contracts.schema_types import find_types, list_branches, list_choices, resolve_reference
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import dump_json, parse
from patchbay.views.hidden_characters import show_hidden_characters
from patchbay.web.site.data import property_row

WHOLE = "content"
"""The name of the field that has the whole answer as JSON: for a program, and for a schema with too many fields."""

MAX_CONTROLS = 100
"""Controls of one form: its fields, and the boxes of lists of choices."""

MAX_OPTIONS = 500
"""Choices of one field; a value with more of them is written as text."""

LINE, TEXT, NUMBER, CHOICE, BOXES = "line", "text", "number", "choice", "boxes"
"""How a field is shown; the first four as by the macro `control`."""

LONG_TEXT = 200
"""A text that may have more characters gets several lines, if its schema says so."""

EXAMPLES = {
    "email": "An e-mail address, as ann@example.org.",
    "uri": "A URL, as https://example.org.",
    "date": "A date, as 2026-01-31.",
    "date-time": "A date and a time, as 2026-01-31T10:30:00Z.",
}

NO_VALUE = "Give a value here."


@dataclass(frozen=True, slots=True)
class AnswerField:
    """One field, with the values that the macro `field` reads. `key` is the name of the property, "" for the whole.

    `name` is that of the control, `value` its text, `options` are choices as JSON texts with their words, `ticked` the
    options that are ticked in a list of boxes.
    """

    key: str
    name: str
    label: str
    hint: str = ""
    need: str = ""
    form: str = LINE
    options: tuple[tuple[str, str], ...] = ()
    value: str = ""
    ticked: frozenset[str] = frozenset()
    problem: str = ""
    default: str = ""
    step: str = "any"
    least: None = None
    most: None = None

    def box(self, place: int) -> str:
        """Return the name of one box of a list of boxes."""
        return f"{self.name}.{place}"

    def typed(self, given: Mapping[str, str]) -> AnswerField:
        """Return the field with what the fields of a sent form have for it."""
        ticked = frozenset(option for place, (option, _) in enumerate(self.options) if self.box(place) in given)
        return replace(self, value=given.get(self.name, ""), ticked=ticked)


def list_fields(schema: Mapping[str, Any], prefix: str) -> list[AnswerField]:
    """Return the fields for a schema with its defaults; their names begin with the prefix."""
    properties = schema.get("properties")
    found = list(_list_fields(schema, properties, prefix)) if isinstance(properties, Mapping) else []
    if len(found) + sum(len(one.options) for one in found if one.form == BOXES) > MAX_CONTROLS:
        return [AnswerField("", WHOLE, "The answer as JSON", form=TEXT, need="required")]
    return found


def read_fields(
    schema: Mapping[str, Any], prefix: str, given: Mapping[str, str]
) -> tuple[dict[str, Any], list[AnswerField], str]:
    """Read an answer from the fields of a sent form.

    Returns the answer; the fields with what was typed, each with its problem; and the problem of the whole answer, ""
    without one. Where nothing has a problem, the answer fits the schema.
    """
    fields = [one.typed(given) for one in list_fields(schema, prefix)]
    if WHOLE in given:
        return _read_whole(schema, fields, given[WHOLE])
    content = {one.key: _read_value(one, schema) for one in fields if one.ticked or one.value.strip()}
    content |= {one.key: [] for one in fields if one.form == BOXES and one.need and one.key not in content}
    found = {one.key: NO_VALUE for one in fields if one.need and one.key not in content}
    whole = []
    try:
        wrong = problems(validator(schema), content)
    except (ConfigError, TypeError):
        return content, fields, "The tool asks for an answer that no form can have: its schema is wrong."
    for problem in wrong:
        key = _find_key(problem["path"], fields)
        if key is not None:
            found.setdefault(key, problem["message"])
        elif not found:
            whole.append(problem["message"])
    return content, [replace(one, problem=found.get(one.key, "")) for one in fields], "; ".join(whole)


def _list_fields(schema: Mapping[str, Any], properties: Mapping[str, Any], prefix: str) -> Iterator[AnswerField]:
    listed = schema.get("required")
    required = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    for place, (key, each) in enumerate(properties.items()):
        one = resolve_reference(each, schema)
        row = property_row(key, one, key in required)
        title = one.get("title")
        label = show_hidden_characters(title) if isinstance(title, str) and title else row["name"]
        types = find_types(one, schema)
        hints = [str(row["description"]), EXAMPLES.get(str(one.get("format")), ""), ", ".join(row["limits"])]
        field = AnswerField(
            *(key, f"{prefix}.{place}", label, " ".join(filter(None, hints)), "required" if row["required"] else "")
        )
        yield _with_control(field, one, types, schema)


def _with_control(field: AnswerField, one: Mapping[str, Any], types: frozenset[str], root: Any) -> AnswerField:
    """Return the field with the control for a property, which shows the default of the schema."""
    default = one.get("default")
    shown = "" if "default" not in one else default if isinstance(default, str) else _json(default)
    choices = _list_options(one) or ((("true", "Yes"), ("false", "No")) if types == {"boolean"} else ())
    if choices:
        value = _json(default) if "default" in one else ""
        return replace(field, form=CHOICE, options=choices, value=value)
    items = resolve_reference(one.get("items"), root) if types == {"array"} else {}
    if options := _list_options(items):
        ticked = frozenset(map(_json, default)) if isinstance(default, list) else frozenset[str]()
        return replace(field, form=BOXES, options=options, ticked=ticked)
    if types and types <= {"integer", "number"}:
        return replace(field, form=NUMBER, value=shown)
    if "string" in types:
        most = one.get("maxLength")
        is_long = isinstance(most, int) and most > LONG_TEXT
        return replace(field, form=TEXT if is_long or "\n" in shown else LINE, value=shown)
    hint = f"{field.hint} Write it as JSON.".strip()
    return replace(field, form=TEXT, hint=hint, value=_json(default) if "default" in one else "")


def _list_options(one: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the choices of a property as JSON texts, with the words that a person reads; empty without choices."""
    values, names = list_choices(one) or [], one.get("enumNames")
    words = names if isinstance(names, list) and len(names) == len(values) else values
    for key in ("oneOf", "anyOf"):
        branches = list_branches(one, key)
        if branches and all(isinstance(each, Mapping) and "const" in each for each in branches):
            values = [each["const"] for each in branches]
            words = [each.get("title", each["const"]) for each in branches]
    if len(values) > MAX_OPTIONS:
        return ()
    return tuple((_json(value), show_hidden_characters(str(word))) for value, word in zip(values, words, strict=True))


def _read_value(field: AnswerField, schema: Mapping[str, Any]) -> Any:
    """Return the value of a field: a text that no type of its schema fits stays a text, which is a problem then."""
    if field.form == BOXES:
        return [parse(option.encode()) for option, _ in field.options if option in field.ticked]
    if field.form == CHOICE:
        return parse(field.value.encode()) if field.value in dict(field.options) else field.value
    return coerce_arguments({field.key: field.value}, schema)[field.key]


def _read_whole(
    schema: Mapping[str, Any], fields: list[AnswerField], text: str
) -> tuple[dict[str, Any], list[AnswerField], str]:
    """Read an answer that is JSON."""
    try:
        content = parse(text.encode("utf-8", "replace"))
        wrong = problems(validator(schema), content)
    except ParseError as problem:
        return {}, fields, f"The answer is not JSON: {problem.message}"
    except (ConfigError, TypeError):
        return {}, fields, "The tool asks for an answer that no form can have: its schema is wrong."
    if not isinstance(content, dict):
        return {}, fields, "The answer has to be a JSON object."
    return content, fields, "; ".join(f"{one['path']}: {one['message']}".removeprefix(": ") for one in wrong)


def _find_key(path: str, fields: list[AnswerField]) -> str | None:
    """Return the property that a problem is about; None for a problem of the whole answer."""
    keys = [one.key for one in fields if path == one.key or path.startswith(f"{one.key}.")]
    return max(keys, key=len, default=None)


def _json(value: Any) -> str:
    return dump_json(value).decode()
