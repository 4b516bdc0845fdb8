"""The query of an address, after its first `?`: which keys choose the operation, launch the server, or are arguments.

    tool=, resource=, list=, schema=        control: the operation, and the expected contract; each once
    prompt=                                 control when no tool is named, else an argument of the tool
    env.X=, header.X=, query.X=, launch.X=  how to start or connect to the server
    arg.X=, args={...}                      an argument of any name; arguments as one JSON object
    anything else                           an argument; a repeated key makes a list

`command=` launches the server for `uvx` only; elsewhere it is an argument. Values are percent-decoded, `+` is a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

from patchbay.client.addresses.targets import AddressError
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

Pair = tuple[str, str]

CONTROL_KEYS = ("tool", "resource", "list", "schema")
LAUNCH_PREFIXES = ("env.", "header.", "query.", "launch.")
_CID = re.compile(r"b[a-z2-7]{10,510}")
_FORBIDDEN_CHARACTER = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """The pairs of a query, sorted by their purpose.

    `launch` holds the pairs that start or connect to the server. `text` holds arguments as they were written (strings,
    lists of strings); the tool's schema gives them their JSON types. `exact` holds arguments that were given as JSON.
    No key is in both.
    """

    control: Mapping[str, str] = field(default_factory=dict)
    launch: tuple[Pair, ...] = ()
    text: Mapping[str, str | list[str]] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)


def check_text(text: str, place: str) -> str:
    """Return a text. Raises AddressError for a NUL or half a surrogate pair, which no program or URL can take."""
    found = _FORBIDDEN_CHARACTER.search(text)
    if found:
        raise AddressError(f"{place}: expected text, found the character {found[0]!r}")
    return text


def decode_percent(text: str, place: str, plus: bool = False) -> str:
    """Decode percent-encoded text. Raises AddressError when the result is not UTF-8."""
    try:
        return check_text((unquote_plus if plus else unquote)(text, errors="strict"), place)
    except UnicodeDecodeError as problem:
        raise AddressError(f"{place}: expected percent-encoded UTF-8, got {text[:80]!r}") from problem


def parse_pairs(text: str) -> list[Pair]:
    """Split a query into its `key=value` pairs, in order. Raises AddressError naming the piece that is not a pair."""
    found = []
    for piece in filter(None, text.split("&")):
        key, equals, value = piece.partition("=")
        place = f"the query part {piece[:80]!r}"
        if not equals or not key:
            raise AddressError(f"{place}: expected key=value")
        found.append((decode_percent(key, place, plus=True), decode_percent(value, place, plus=True)))
    return found


def sort_pairs(given: Iterable[Pair], has_tool: bool, launch_keys: frozenset[str] = frozenset()) -> Query:
    """Sort pairs by their purpose.

    `has_tool` says that the path names a tool already; `launch_keys` are bare keys that launch the server here
    (`command` for uvx). Raises AddressError.
    """
    rows = list(given)
    words = CONTROL_KEYS if has_tool or any(key == "tool" for key, _ in rows) else (*CONTROL_KEYS, "prompt")
    control: dict[str, str] = {}
    launch: list[Pair] = []
    text: dict[str, str | list[str]] = {}
    objects: list[str] = []
    for key, value in rows:
        if key in launch_keys or key.startswith(LAUNCH_PREFIXES):
            launch.append((key, value))
        elif key in words:
            _set_control(control, key, value)
        elif key == "args":
            objects.append(value)
        else:
            _add_argument(text, key.removeprefix("arg."), value)
    _check_pin(control)
    return Query(control, tuple(launch), text, _parse_exact_arguments(objects, text))


def _set_control(control: dict[str, str], key: str, value: str) -> None:
    escape = f"a tool's own argument of this name is written arg.{key}="
    if not value:
        raise AddressError(f"{key}=: expected a value; {escape}")
    if key in control:
        raise AddressError(f"{key}= appears twice; expected it once; {escape}")
    control[key] = value


def _add_argument(text: dict[str, str | list[str]], name: str, value: str) -> None:
    if not name:
        raise AddressError("arg.: expected the name of an argument after the point")
    before = text.get(name)
    if before is None:
        text[name] = value
    else:
        text[name] = [*before, value] if isinstance(before, list) else [before, value]


def _check_pin(control: Mapping[str, str]) -> None:
    pin = control.get("schema")
    if pin is not None and not _CID.fullmatch(pin):
        raise AddressError(
            f"schema={pin[:80]}: expected the CID of a contract (bafkrei...);"
            " a tool's own argument of this name is written arg.schema="
        )


def _parse_exact_arguments(objects: list[str], text: Mapping[str, Any]) -> dict[str, Any]:
    if not objects:
        return {}
    escape = "a tool's own argument of this name is written arg.args="
    if len(objects) > 1:
        raise AddressError(f"args= appears twice; expected one JSON object; {escape}")
    try:
        value = parse(objects[0].encode())
    except ParseError as problem:
        raise AddressError(f"args=: expected a JSON object; {problem.message}; {escape}") from problem
    if not isinstance(value, dict):
        raise AddressError(f"args=: expected a JSON object, got {objects[0][:80]}; {escape}")
    twice = sorted(set(value) & set(text))
    if twice:
        raise AddressError(f"the argument {twice[0]!r} is in args= and beside it; expected one of the two")
    return value
