"""The fields of a form for the configuration of a server, generated from its JSON Schema (`mcps.schema.json`).

A field shows one value of the document as the text of a control, and turns the text of a control into a value. A value
that no control can show stays as it is: only the text of the document changes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import orjson

from patchbay.config import LISTING_MEMBERS, SCHEMA
from patchbay.kind import find_kind

SECTIONS = (
    ("Name and purpose", ("title", "description", "instructions")),
    ("How it runs", ("address", "isolation", "sandbox", "confine", "network", "timeout", "memory", "requirements")),
    ("Places that it may use", ("writes", "reads", "home", "folder")),
    ("Environment", ("environment", "headers")),
    ("Limits and records", ("limits", "activity", "mask_errors")),
    ("Changes", ("changes",)),
)
"""The sections of the form with their fields. Other fields that a control can show are in the section MORE."""

MORE = "More"
TOOLS = "Approvals and schedules"
TOOL_FIELDS = ("approve", "schedule", "timezone")
"""The fields of each tool that the form has."""

MAX_TOOLS = 25
"""Tools with fields in the form, at most; the text has all."""

UNSHOWN = frozenset(("$schema", "kind", "mcp_enabled"))
LONG = frozenset(("description", "instructions"))
"""Texts of several lines."""

_FOR_KIND = re.compile(r"^(?:OpenAPI|Upstream|Mounted|Documents|Room|Toolset)[A-Za-z ,]*: ")
_PROGRAM, _API = "Mounted program: ", "OpenAPI: "
_WORDS = {"true": "Yes", "false": "No"}


@dataclass(frozen=True, slots=True)
class FormField:
    """One field: the `keys` that lead to its value in the document, and how a control shows it.

    `form` is `line`, `text`, `number`, `choice`, `lines` (one value a line), `pairs` (NAME=value a line), `hosts` (yes,
    no, or a list of lines) or `secret` (a value that is never shown). `default` says what holds without a value.
    `options` are the choices as JSON texts with their words; `least` and `most` are the limits of a number, and `step`
    is 1 for whole numbers.
    """

    keys: tuple[str, ...]
    label: str
    hint: str
    form: str
    options: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None
    step: str = "any"
    default: str = ""

    @property
    def name(self) -> str:
        """The name of the control, and the path of the value in messages."""
        return ".".join(self.keys)

    def show(self, document: Mapping[str, Any]) -> str | None:
        """Return the text of the control; empty for no value, None for a value that this control cannot show."""
        found: Any = document
        for key in self.keys:
            if not isinstance(found, Mapping):
                return None
            if key not in found:
                return ""
            found = found[key]
        return self._as_text(found)

    def _as_text(self, value: Any) -> str | None:
        if self.form == "choice":
            text = orjson.dumps(value).decode()
            return text if text in {each for each, _ in self.options} else None
        if self.form == "number":
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return orjson.dumps(value).decode() if is_number else None
        if self.form == "hosts" and isinstance(value, bool):
            return "true" if value else "false"
        if self.form in ("lines", "hosts"):
            if not isinstance(value, list) or not value or not all(_is_line(one) for one in value):
                return None
            return ("list\n" if self.form == "hosts" else "") + "\n".join(value)
        if self.form == "pairs":
            if not isinstance(value, Mapping) or not value or not all(_is_pair(*one) for one in value.items()):
                return None
            return "\n".join(f"{name}={text}" for name, text in value.items())
        is_shown = isinstance(value, str) and value == value.replace("\r", "").strip("\n") and value
        return value if is_shown and (self.form == "text" or "\n" not in value) else None

    def read(self, text: str) -> Any:
        """Return the value of the text of a control; None for no value. Raises ValueError with a sentence."""
        text = text.strip("\n") if self.form == "text" else text.strip()
        if not text:
            return None
        if self.form == "number":
            try:
                found = orjson.loads(text)
            except orjson.JSONDecodeError:
                found = None
            if not isinstance(found, (int, float)) or isinstance(found, bool):
                raise ValueError(f"expected a number; this is {text!r:.80}")
            return found
        if self.form == "choice":
            if text not in {each for each, _ in self.options}:
                raise ValueError(f"expected one of the choices; this is {text!r:.80}")
            return orjson.loads(text)
        if self.form == "hosts":
            if text in ("true", "false"):
                return text == "true"
            return _lines(text.removeprefix("list"))
        if self.form == "lines":
            return _lines(text)
        return _pairs(text) if self.form == "pairs" else text


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value == value.strip() and value != "" and len(value.splitlines()) == 1


def _is_pair(name: str, value: Any) -> bool:
    return isinstance(value, str) and "=" not in name and _is_line(f"{name}={value}") and _is_line(name)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for line in _lines(text):
        name, sign, value = line.partition("=")
        if not sign:
            raise ValueError(f"expected NAME=value in each line; this line has no = sign: {line!r:.80}")
        if name in found:
            raise ValueError(f"expected each name once; {name} has two lines")
        found[name] = value
    return found


def list_sections(kind: str, is_program: bool, tools: Sequence[str] = ()) -> list[tuple[str, list[FormField]]]:
    """Return the sections of the form for a server of a kind, each with its fields.

    `is_program` says whether the server is a mounted program; `tools` are the names of the tools that its own
    configuration may change.
    """
    fields = {name: list(_fields_of(name, schema, kind)) for name, schema in _possible(kind, is_program).items()}
    named = {name for _, names in SECTIONS for name in names}
    found = [(title, [one for name in names for one in fields.get(name, ())]) for title, names in SECTIONS]
    of_tools = SCHEMA["$defs"]["tool"]["properties"]
    for tool in tools[:MAX_TOOLS]:
        found.append(
            (tool, [one for key in TOOL_FIELDS for one in _fields_of(key, of_tools[key], kind, ("tools", tool))])
        )
    found.append((MORE, [one for name, each in fields.items() if name not in named for one in each]))
    return [(title, each) for title, each in found if each]


def _possible(kind: str, is_program: bool) -> dict[str, Mapping[str, Any]]:
    """Return the fields of the schema that a server of a kind may have."""
    row = find_kind(kind)
    properties: dict[str, Mapping[str, Any]] = SCHEMA["properties"]
    if row is not None and row.configuration is not None:
        names = row.configuration.fields
    else:
        names = frozenset(
            name
            for name, schema in properties.items()
            if kind in schema.get("x-kinds", (kind,)) and not _FOR_KIND.match(schema.get("description", ""))
        )
    return {
        name: schema
        for name, schema in properties.items()
        if name in names
        and name not in UNSHOWN
        and (is_program or not schema.get("description", "").startswith(_PROGRAM))
    }


def _fields_of(
    name: str, schema: Mapping[str, Any], server_kind: str, above: tuple[str, ...] = ()
) -> Iterator[FormField]:
    """Yield the fields for one property of the schema; none for a value that only the text can have."""
    schema = _resolve(schema)
    keys = (*above, name)
    label = schema.get("title") or name.replace("_", " ").capitalize()
    hint = _FOR_KIND.sub("", schema.get("description", ""))
    hint = hint[:1].upper() + hint[1:]
    kind, items = schema.get("type"), _resolve(schema.get("items", {}))
    if "enum" in schema or kind == "boolean":
        values = [orjson.dumps(one).decode() for one in schema.get("enum", (True, False))]
        words = _WORDS | schema.get("x-words", {})
        options = tuple((one, words.get(one.strip('"'), one.strip('"'))) for one in values)
        default = dict(options).get(orjson.dumps(schema["default"]).decode(), "") if "default" in schema else ""
        yield FormField(keys, label, hint, "choice", options, default=default)
    elif kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        step = "1" if kind == "integer" else "any"
        default = str(schema.get("default", ""))
        yield FormField(keys, label, hint, "number", (), least, schema.get("maximum"), step, default)
    elif kind == "string":
        yield FormField(keys, label, hint, "text" if name in LONG else "line")
    elif kind == "array" and items.get("type") == "string":
        yield FormField(keys, label, f"{hint} One in each line.", "lines")
    elif kind == ["boolean", "array"]:
        words = schema.get("x-words", {})
        options = (
            ("true", words.get("true", "Yes")),
            ("false", words.get("false", "No")),
            ("list", "Only these hosts"),
        )
        yield FormField(keys, label, hint, "hosts", options, default=options[0][1])
    elif kind == "object" and "properties" in schema and not above:
        for inner, each in schema["properties"].items():
            if server_kind == "toolset" and name == "listing" and inner in LISTING_MEMBERS:
                continue  # a toolset has them among its own fields
            if server_kind != "openapi" and each.get("description", "").startswith(_API):
                continue
            for one in _fields_of(inner, each, server_kind, keys):
                own = f"{label}: {one.label[:1].lower()}{one.label[1:]}"
                yield one if name == "limits" else replace(one, label=own)
    elif kind == "object" and _resolve(schema.get("additionalProperties", {})).get("type") == "string":
        yield FormField(keys, label, f"{hint} One in each line, as NAME=value.", "pairs")


def _resolve(schema: Any) -> Mapping[str, Any]:
    """Return a schema with what its reference says; its own members come first."""
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref", "")
    return {**SCHEMA["$defs"][reference.rpartition("/")[2]], **schema} if reference else schema


def set_value(document: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of a document with another value at these keys; None removes it, with objects that become empty."""
    changed = deepcopy(document)
    above = [changed]
    for key in keys[:-1]:
        inner = above[-1].setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValueError(f"expected an object at {key}")
        above.append(inner)
    if value is not None:
        above[-1][keys[-1]] = value
        return changed
    above[-1].pop(keys[-1], None)
    # An empty entry of a tool lists the tool, unless all functions are listed.
    keeps = keys[0] == "tools" and changed.get("auto_discover") is not True
    for place in range(len(keys) - 1, 0, -1):
        if above[place] or keeps:
            break
        del above[place - 1][keys[place - 1]]
    return changed


def unshown_names(document: Mapping[str, Any], fields: Iterable[FormField]) -> list[str]:
    """Return the fields of a document that only its text shows, sorted."""
    shown = {one.keys[0] for one in fields if one.show(document) not in (None, "")}
    hidden = {one.keys[0] for one in fields if one.show(document) is None}
    return sorted((set(document) - shown - UNSHOWN) | hidden)
