"""Reads the form of a toolset: what it shows is put into the fields that were there, and the rest stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from patchbay.catalogue.operating.toolsets import copy_fields
from patchbay.entry_patterns import covers

TICK = "choose:"
"""The beginning of the name of a tick."""


def read_form_fields(before: dict[str, Any], fields: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that a form means, and what is wrong in it: what it does not show stays as it is.

    The field `choose:ORIGIN` is the tick of a tool. One that a pattern chooses and that has no tick is excluded.
    """
    ticks = [name.removeprefix(TICK) for name in fields if name.startswith(TICK)]
    wanted = copy_fields(before)
    for key in ("title", "description"):
        if key in fields:
            wanted[key] = fields[key].strip()
            wanted = {name: value for name, value in wanted.items() if name != key or value}
    shown = set(fields.get("had", "").split("\n"))
    tools: dict[str, Any] = {}
    own = {(_one["from"] if isinstance(_one, dict) else _one): key for key, _one in wanted.get("tools", {}).items()}
    for origin, key in own.items():
        if origin in ticks or origin not in shown:
            tools[key] = wanted["tools"][key]
    include = [one for one in wanted.get("include", ()) if one in ticks or one not in shown]
    exclude = [one for one in wanted.get("exclude", ()) if one not in ticks]
    covered = _covered_by(include)
    for origin in ticks:
        if origin not in include and origin not in own and not covered(origin):
            include.append(origin)
    had = [one for one in fields.get("had", "").split("\n") if one]
    exclude += [one for one in had if one not in ticks and covered(one) and one not in exclude]
    wanted["include"], wanted["exclude"], wanted["tools"] = include, exclude, tools
    wrong: list[str] = []
    for place, origin in enumerate(had):
        if origin in ticks:
            wrong += _shape_from_form(wanted, origin, fields, place)
    return {key: value for key, value in wanted.items() if value or key not in ("include", "exclude", "tools")}, wrong


def _covered_by(include: list[str]) -> Callable[[str], bool]:
    """Return whether a pattern chooses an origin, as a function of the origin."""

    def is_covered(origin: str) -> bool:
        server, _, entry = origin.partition(".")
        return any(covers(pattern, server, entry) for pattern in include)

    return is_covered


def _shape_from_form(wanted: dict[str, Any], origin: str, fields: dict[str, str], place: int) -> list[str]:
    """Take over the name, the description and the fixed arguments of one chosen tool; return what is wrong in them."""
    was, name = fields.get(f"was-{place}", ""), fields.get(f"name-{place}", "").strip()
    description, fixed = fields.get(f"description-{place}", "").strip(), fields.get(f"fixed-{place}", "")
    tools = wanted["tools"]
    said = tools.get(was)
    wrong: list[str] = []
    named: dict[str, Any] = dict(said) if isinstance(said, dict) else {"from": origin}
    arguments = {key: one for key, one in named.get("arguments", {}).items() if "value" not in one}
    for line in filter(None, (one.strip() for one in fixed.split("\n"))):
        key, sign, value = line.partition("=")
        if sign:
            arguments[key.strip()] = {"value": _read_value(value)}
        else:
            wrong.append(f"the fixed arguments of {was}: expected NAME=VALUE on each line; got {line!r:.80}")
    named["arguments"], named["description"] = arguments, description
    named = {key: one for key, one in named.items() if one or key == "from"}
    name = name or was
    if name != was and name in tools:
        return [*wrong, f"the name of {was}: expected another one, because {name} is there already"]
    if said is None and name == was and named.keys() == {"from"}:
        return wrong
    if origin in wanted["include"]:
        wanted["include"].remove(origin)
    renamed = {(name if key == was else key): one for key, one in tools.items()}
    renamed[name] = origin if named.keys() == {"from"} else named
    wanted["tools"] = renamed
    return wrong


def _read_value(text: str) -> Any:
    """Return the JSON value that a text is, else the text itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
