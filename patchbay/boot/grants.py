"""The variable `access`: the grants and denials of the hub, read strictly. `access.schema.json` describes every field.

A text that cannot be read changes nothing: it is refused where it is written, and the last readable one stays in force.
Source: JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.patterns.entries import EVERYTHING, ROOM

SCHEMA: dict[str, Any] = orjson.loads((Path(__file__).parent / "access.schema.json").read_bytes())

SEE, CALL, READ, OPERATE = "see", "call", "read", "operate"
ACTIONS = (SEE, CALL, READ, OPERATE)

_SERVER_PATTERN = re.compile(r"[A-Za-z0-9_-]*")
"""What the part of a pattern before its first dot may have besides wildcards."""

_WILDCARDS = re.compile(r"\[[^\]]+\]|[*?]")

_IS_VALID = jsonschema_rs.validator_for(SCHEMA)


@cache
def _get_explaining_validator() -> Any:
    """Return the slower validator, whose errors have their places and rules."""
    import jsonschema

    return jsonschema.Draft202012Validator(SCHEMA)


@dataclass(frozen=True, slots=True)
class Grant:
    """One row: the principals `to`, the actions `may` (all of them in a denial), the patterns `on`.

    `place` names the row for people: `grant 2`. `asks` says that a call of a destructive tool needs an approval.
    """

    place: str
    to: tuple[str, ...]
    may: tuple[str, ...]
    on: tuple[str, ...]
    asks: bool = False

    @property
    def makes_administrators(self) -> bool:
        """Whether the row lets its principals operate the whole hub, and not only the toolsets that it names."""
        return OPERATE in self.may and EVERYTHING in self.on


@dataclass(frozen=True, slots=True)
class Quota:
    """One row of quotas: `limits` by name for each principal in `to`, on each server that a pattern in `on` covers.

    Without `on` the limits are for everything that a principal does; without `to` they are for all callers together.
    """

    place: str
    to: tuple[str, ...]
    on: tuple[str, ...]
    limits: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Grants:
    """The content of the variable `access`. `cid` is the CID of its bytes, None without bytes."""

    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    denials: tuple[Grant, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cid: str | None = field(default=None, compare=False)

    @cached_property
    def asks(self) -> bool:
        """Whether a row asks for an approval of calls."""
        return any(row.asks for row in self.grants)


NOTHING = Grants()
"""Grants that give nothing: in force while the only text that the variable ever had cannot be read."""


def parse_grants(data: bytes | None, where: str, is_new: bool = False) -> Grants | None:
    """Return the grants in the bytes of the variable; None without the variable. Raises ConfigError.

    With `is_new`, a pattern that can never match is an error too: a stored document keeps such rows, which do nothing.

    An empty text is not a document: it is refused, because it does not say whether it allows everything or nothing.
    """
    if data is None:
        return None
    try:
        value = parse_file(data)
    except ParseError as problem:
        raise ConfigError(where, "", f"expected JSON; {problem.message}") from problem
    if not _IS_VALID.is_valid(value):
        worst = min(
            _get_explaining_validator().iter_errors(value),
            key=lambda one: (len(one.path) == 0, list(map(str, one.path))),
        )
        path = ".".join(str(part) for part in worst.absolute_path)
        if worst.validator == "anyOf" and path.endswith("on"):
            wanted = 'expected ["*"], which makes an administrator, or names of toolsets, such as ["release"]'
            raise ConfigError(where, path, f"{wanted}, which these principals may make and change")
        raise ConfigError(where, path, f"expected what access.schema.json describes; {worst.message:.300}")
    grants = [
        Grant(f"grant {n}", *_row(row), tuple(row["on"]), "call" in row)
        for n, row in enumerate(value.get("grants", ()), 1)
    ]
    denials = [Grant(f"denial {n}", *_row(row), tuple(row["on"])) for n, row in enumerate(value.get("denials", ()), 1)]
    groups = {name: frozenset(members) for name, members in value.get("groups", {}).items()}
    quotas = [_quota(f"quota {n}", row) for n, row in enumerate(value.get("quotas", ()), 1)]
    rows: list[Grant | Quota] = [*grants, *denials, *quotas]
    for row in rows:
        for pattern in row.on:
            check_pattern(pattern, where, row.place)
            if is_new:
                check_can_match(pattern, where, row.place)
    return Grants(groups, tuple(grants), tuple(denials), tuple(quotas), cid_of(data))


def _quota(place: str, row: Mapping[str, Any]) -> Quota:
    limits = {name: value for name, value in row.items() if name not in ("to", "on")}
    return Quota(place, tuple(row.get("to", ())), tuple(row.get("on", ())), limits)


def _row(row: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(row["to"]), tuple(row.get("may", ACTIONS))


def check_pattern(pattern: str, where: str, path: str) -> None:
    """Check that a pattern has a server and an entry where it has a dot. Raises ConfigError."""
    name = pattern.removeprefix(ROOM)
    if not name or name.startswith(".") or name.endswith("."):
        raise ConfigError(where, path, f"expected a pattern such as notes, notes.search, notes.* or *; got {pattern!r}")


def check_can_match(pattern: str, where: str, path: str) -> None:
    """Check that a pattern fits the name of some server (catalogue/aggregate/public_names.py). Raises ConfigError.

    The entry after a dot can be anything, such as the URI of a resource.
    """
    server = pattern.partition(".")[0]
    if _SERVER_PATTERN.fullmatch(_WILDCARDS.sub("", server)) is None:
        meant = pattern.strip("/").removeprefix("mcp/").replace("/", ".", 1)
        hint = f"; write {meant}" if _SERVER_PATTERN.fullmatch(meant.partition(".")[0]) and meant != pattern else ""
        raise ConfigError(
            where,
            path,
            f"{pattern!r:.120} can never match: the name of a server has only letters, digits, _ and -, and a dot"
            f" stands before the tool, as in notes.search{hint}",
        )
