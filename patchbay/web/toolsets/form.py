"""Reads the form of a toolset: what it shows is put into the fields that were there, and the rest stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.arguments import validator
from patchbay.catalogue.operating.toolsets import DraftedToolset, Split, copy_fields
from patchbay.errors import ConfigError, InvalidParams
from patchbay.patterns.entries import covers
from patchbay.python_functions.script_function import MAX_CODE_CHARACTERS
from patchbay.python_functions.script_texts import scripts_of
from patchbay.shaping.arguments import CALLER

Properties = Mapping[str, Any]
"""The schemas of the arguments of a tool, by name."""

TICK = "choose:"
"""The beginning of the name of a tick of a tool that is not chosen yet; its origin follows."""

PATTERNS = ("resources", "prompts")
"""The fields that the form shows as patterns, one on a line."""

SCRIPT = "script-"
"""The beginning of the name of the field with the script of a chosen tool; its place in `had` follows."""

NEW_SCRIPT, NEW_NAME = "new-script", "new-script-name"
"""The names of the fields with the text of a script that becomes a tool, and with the name of the tool."""

FILE = "file:"
"""The beginning of the name of the field of a file; the name of the field of its text follows."""

SCRIPT_ROW = "script:"
"""What a tool that is a script has in the list `had` in place of an origin, before its name."""

RESULT = "result-"
"""The beginning of the name of the field with the jq expression of a chosen tool; its place in `had` follows."""

PLACE_TICK = "choose-"
"""The beginning of the name of a tick of a chosen tool; its place in the list `had` follows."""


_CONTROLS = {"title": "the title", "description": "what it is for", "tools": "the name of a tool"}

_FUNCTION = re.compile(r"^(?:async +)?def +([A-Za-z]\w*)", re.MULTILINE)

_OF_A_TOOL = {
    "": "the tool",
    "script": "the script of",
    "description": "the description of",
    "arguments": "the fixed arguments of",
    "result": "the jq expression of",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A chosen tool in a form: its place, its origin, its name in the fields that the form showed, its tick."""

    place: int
    origin: str
    name: str
    is_ticked: bool

    @property
    def is_script(self) -> bool:
        """Whether the tool is a script, which has no origin."""
        return self.origin.startswith(SCRIPT_ROW)


def read_form_fields(
    before: dict[str, Any],
    fields: dict[str, str],
    properties_of: Callable[[str], Properties],
    text_of: Callable[[str], str],
    split: Split,
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that a form means, and what is wrong in it: what it does not show stays as it is.

    The field `choose:ORIGIN` is the tick of a tool that is not chosen yet. `had` has the origins of the chosen tools,
    one on a line, and `choose-PLACE` is the tick of one of them: several may have one origin. An origin that a pattern
    chooses and that has no tick any more is excluded. `before` are the fields that the form showed. `properties_of`
    returns the schemas of the arguments of an origin, by which a fixed value is read, `text_of` the text of what the
    field `script` of a tool says, and `split` its server and its tool.
    """
    wanted = copy_fields(before)
    for key in ("title", "description"):
        if key in fields:
            wanted[key] = fields[key].strip()
            wanted = {name: value for name, value in wanted.items() if name != key or value}
    for key in PATTERNS:
        if key in fields:
            wanted[key] = [line for one in fields[key].split("\n") if (line := one.strip())]
    rows = _read_rows(fields)
    added = [name.removeprefix(TICK) for name in fields if name.startswith(TICK)]
    dropped = {row.name for row in rows if not row.is_ticked}
    tools = {key: one for key, one in wanted.get("tools", {}).items() if key not in dropped}
    kept = {row.origin for row in rows if row.is_ticked} | {_origin_of(one) for one in tools.values()} | {*added}
    left_out = list(dict.fromkeys(row.origin for row in rows if row.origin not in kept and not row.is_script))
    include = [one for one in wanted.get("include", ()) if one not in left_out]
    exclude = [one for one in wanted.get("exclude", ()) if one not in added]
    covered = _covered_by(include, split)
    include += [one for one in added if one not in include and not covered(one)]
    exclude += [one for one in left_out if covered(one) and one not in exclude]
    wanted["include"], wanted["exclude"], wanted["tools"] = include, exclude, tools
    wrong: list[str] = []
    for row in rows:
        if row.is_ticked:
            _replace_script(wanted["tools"], row, fields, text_of)
            wrong += _shape_from_form(wanted, row, fields, properties_of(row.origin))
    wrong += _add_script(wanted["tools"], fields)
    lists = ("include", "exclude", "tools", *PATTERNS)
    return {key: value for key, value in wanted.items() if value or key not in lists}, wrong


def name_control(drafted: DraftedToolset, where: str) -> str:
    """Return the control of the form for a place in the fields, such as `tools.log.result`; else the place itself."""
    tool = drafted.find_tool(where)
    if tool is not None:
        member = where.removeprefix(f"tools.{tool}").removeprefix(".").partition(".")[0]
        return f"{_OF_A_TOOL[member]} {tool}" if member in _OF_A_TOOL else where
    kind, _, number = where.partition(".")
    if kind in PATTERNS and number.isdigit():
        return f"line {int(number) + 1} of the patterns of {kind}"
    return _CONTROLS.get(where, where)


def is_readable(shown: dict[str, Any]) -> bool:
    """Whether fields that a form carried have the types that `read_form_fields` needs; a draft checks the rest."""
    tools = shown.get("tools", {})
    lists = [shown.get(member, []) for member in ("include", "exclude", *PATTERNS)]
    return (
        all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists)
        and isinstance(tools, dict)
        and all(isinstance(one, str) or (isinstance(one, dict) and _is_named(one)) for one in tools.values())
    )


def _is_named(tool: dict[str, Any]) -> bool:
    given = tool.get("arguments", {})
    return (
        isinstance(tool.get("from", tool.get("script")), str)
        and isinstance(tool.get("result", ""), str)
        and isinstance(given, dict)
        and all(isinstance(one, dict) for one in given.values())
    )


def _replace_script(tools: dict[str, Any], row: _Row, fields: dict[str, str], text_of: Callable[[str], str]) -> None:
    """Give a chosen tool that is a script the text of the form, if that is another one."""
    typed = fields.get(f"{SCRIPT}{row.place}", "").strip("\n")
    said = tools.get(row.name)
    if row.is_script and typed and isinstance(said, dict) and typed != text_of(said["script"]).strip("\n"):
        tools[row.name] = {**said, "script": f"{typed}\n"}


def _add_script(tools: dict[str, Any], fields: dict[str, str]) -> list[str]:
    """Add the script that was typed as a new tool; return what is wrong. Without a name it has that of its function."""
    text = fields.get(NEW_SCRIPT, "").strip("\n")
    if not text.strip():
        return []
    function = _FUNCTION.search(text)
    name = fields.get(NEW_NAME, "").strip() or (function[1] if function is not None else "")
    if not name:
        return ["the new script: expected a function, such as `async def close_stale(days: int) -> int:`"]
    if name in tools:
        return [f"the name of the new script: expected another one, because {name} is there already"]
    tools[name] = {"script": f"{text}\n"}
    return []


def read_script_files(files: Mapping[str, bytes], fields: Mapping[str, str], wrong: list[str]) -> dict[str, str]:
    """Return the texts of the files of scripts, by the names of the fields in whose place they stand.

    What is wrong with a file is appended to `wrong`; the field keeps what was typed. Other files are left out.
    """
    texts = {}
    for name, data in files.items():
        field = name.removeprefix(FILE)
        place = field.removeprefix(SCRIPT)
        if name == f"{FILE}{NEW_SCRIPT}":
            control = "the file of the new script"
        elif name.startswith(f"{FILE}{SCRIPT}") and place.isdecimal():
            control = f"the file for the script {fields.get(f'was-{place}', '')}".rstrip()
        else:
            continue
        try:
            texts[field] = _decode_script(data)
        except InvalidParams as problem:
            wrong.append(f"{control}: {problem.message}")
    return texts


def _decode_script(data: bytes) -> str:
    """Return the text of a file with a script. Raises InvalidParams for one that cannot be the text of a script."""
    if len(data) > MAX_CODE_CHARACTERS:
        raise InvalidParams(f"expected at most {MAX_CODE_CHARACTERS:,} bytes; it has {len(data):,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidParams(f"expected Python as UTF-8 text; byte {problem.start + 1} is not UTF-8") from problem
    if "\0" in text:
        raise InvalidParams(f"expected Python as UTF-8 text; byte {data.index(0) + 1} is a zero")
    if not text.strip():
        raise InvalidParams("expected Python with one typed function; the file is empty")
    return text


def without_taken_script(fields: dict[str, str], wanted: Mapping[str, Any]) -> dict[str, str]:
    """Return the sent form without the new script, once that is among the chosen tools."""
    text = fields.get(NEW_SCRIPT, "").strip("\n")
    is_taken = f"{text}\n" in scripts_of(wanted).values()
    return {key: value for key, value in fields.items() if not (is_taken and key in (NEW_SCRIPT, NEW_NAME))}


def _read_rows(fields: dict[str, str]) -> list[_Row]:
    origins = [one for one in fields.get("had", "").split("\n") if one]
    return [
        _Row(place, origin, fields.get(f"was-{place}", ""), f"{PLACE_TICK}{place}" in fields)
        for place, origin in enumerate(origins)
    ]


def _origin_of(tool: str | dict[str, Any]) -> str:
    return str(tool.get("from", "")) if isinstance(tool, dict) else tool


def _covered_by(include: list[str], split: Split) -> Callable[[str], bool]:
    """Return whether a pattern chooses an origin, as a function of the origin."""

    def is_covered(origin: str) -> bool:
        server, entry = split(origin)
        return any(covers(pattern, server, entry) for pattern in include)

    return is_covered


def _shape_from_form(wanted: dict[str, Any], row: _Row, fields: dict[str, str], properties: Properties) -> list[str]:
    """Take over what the form says about one chosen tool; return what is wrong in it.

    That is its name, its description, its fixed arguments and its jq expression. Everything else about the tool stays,
    such as its limits.
    """
    was, name = row.name, fields.get(f"name-{row.place}", "").strip() or row.name
    description, fixed = fields.get(f"description-{row.place}", "").strip(), fields.get(f"fixed-{row.place}", "")
    tools = wanted["tools"]
    said = tools.get(was)
    named: dict[str, Any] = dict(said) if isinstance(said, dict) else {"from": row.origin}
    arguments = {key: one for key, one in named.get("arguments", {}).items() if "value" not in one}
    stored = {key: one["value"] for key, one in named.get("arguments", {}).items() if "value" in one}
    values, wrong_lines = _read_lines(fixed, lambda key, text: _read_fixed(key, text, properties, stored))
    arguments |= {key: {"value": value} for key, value in values.items()}
    wrong = [f"the fixed arguments of {was}: {one}" for one in wrong_lines]
    result = fields.get(f"{RESULT}{row.place}", named.get("result", "")).strip()
    named |= {"arguments": arguments, "description": description, "result": result}
    shown = ("arguments", "description", "result")
    named = {member: one for member, one in named.items() if one or member not in shown}
    if name != was and name in tools:
        wrong.append(f"the name of {was}: expected another one, because {name} is there already")
        name = was  # so that nothing else that was typed about it is lost
    if name == was and (named == said or (not isinstance(said, dict) and named.keys() == {"from"})):
        return wrong
    if row.origin in wanted["include"]:
        wanted["include"].remove(row.origin)
    renamed = {(name if key == was else key): one for key, one in tools.items()}
    renamed[name] = row.origin if named.keys() == {"from"} else named
    wanted["tools"] = renamed
    return wrong


def read_arguments(text: str, properties: Properties) -> dict[str, Any]:
    """Return the arguments that a text means: a JSON object, or NAME=VALUE on each line. Raises InvalidParams."""
    if text.lstrip().startswith("{"):
        try:
            return dict(orjson.loads(text))
        except orjson.JSONDecodeError as problem:
            raise InvalidParams(f"expected a JSON object, or NAME=VALUE on each line; {problem}") from problem
    arguments, wrong = _read_lines(text, lambda key, value: _read_value(value, properties.get(key)))
    if wrong:
        raise InvalidParams(wrong[0])
    return arguments


def write_value(value: Any) -> str:
    """Return a fixed value as the form writes it: a text as it is, unless it would be read as another value."""
    text = orjson.dumps(value).decode()
    if not isinstance(value, str) or value != value.strip() or "\n" in value or "\r" in value:
        return text
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return text


def _read_lines(text: str, read: Callable[[str, str], Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of lines NAME=VALUE, and what is wrong in them; `read` has a name and a text."""
    arguments: dict[str, Any] = {}
    wrong = []
    for line in filter(None, (one.strip() for one in text.split("\n"))):
        name, sign, value = line.partition("=")
        if sign:
            arguments[name.strip()] = read(name.strip(), value.strip())
        else:
            wrong.append(f"expected NAME=VALUE on each line; got {line!r:.80}")
    return arguments, wrong


def _read_fixed(name: str, text: str, properties: Properties, stored: Mapping[str, Any]) -> Any:
    """Return the fixed value that a text is. The text that the form wrote for the stored value is that value.

    An object such as {"caller": "id"} stands for a fact about the caller, whatever type the argument has.
    """
    if name in stored and text == write_value(stored[name]):
        return stored[name]
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, dict) and value.keys() == {CALLER} else _read_value(text, properties.get(name))


def _read_value(text: str, schema: Any) -> Any:
    """Return the JSON value that a text is, else the text itself; the text too where the argument takes it alone."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(schema, Mapping):
        try:
            checker = validator(schema)
        except ConfigError:  # a schema that refers to others of its tool cannot be compiled alone
            return value
        if not checker.is_valid(value) and checker.is_valid(text):
            return text
    return value
