"""Boxes of a form with the lines that a program needs, and the lines that the operator has ticked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from patchbay.catalogue.operating.proposed_lines import describe_line
from patchbay.errors import InvalidParams, Refused
from patchbay.kinds.program_proposals import Proposal, with_proposal

ALLOW = "allow-"
"""The beginning of the names of the boxes with the lines that a program needs."""

SHOWN = "shown-"
"""The beginning of the names of the fields that say which lines a form has shown, ticked or not."""

PROPOSED_FIELDS = frozenset(("reads", "writes", "needs"))


def add_ticked_lines(definition: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a definition with the lines that the operator ticked. Raises InvalidParams."""
    found = dict(definition)
    for key in sorted(name for name in fields if name.startswith(ALLOW)):
        try:
            line = orjson.loads(fields[key])
        except orjson.JSONDecodeError as problem:
            raise InvalidParams(f"{key} must be a line that the page showed: {problem}") from problem
        if not isinstance(line, dict) or not set(line) <= PROPOSED_FIELDS:
            raise InvalidParams(f"{key} must be a line that the page showed")
        found = with_proposal(found, Proposal(line))
    return found


def check_lines_shown(lines: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> None:
    """Raise Refused when a form has not shown all of these lines, because other values need other lines."""
    seen = {text for name, text in fields.items() if name.startswith((ALLOW, SHOWN))}
    fresh = [one for one in lines if one["value"] not in seen]
    if fresh:
        what = "; ".join(f"{one['text']}: {ALLOW}1={one['value']}, or {SHOWN}1={one['value']} not to" for one in fresh)
        raise Refused("the values name places of this machine: choose what the program may do", {"lines": what})


def list_lines(proposal: Proposal, own: Proposal | None = None) -> list[dict[str, Any]]:
    """Return the lines to tick, each with its JSON; those of `optional` are not ticked.

    With `own`, only lines that this proposal has too are ticked.
    """
    ticked = {(name, one) for name, value in (own or proposal).fields.items() for one in _each(value)}
    found = [(name, one) for name, value in proposal.fields.items() for one in _each(value)]
    lines = [(*line, line in ticked) for line in found]
    lines += [(name, one, False) for found, _ in proposal.optional for name, value in found.items() for one in value]
    return [
        {
            "text": describe_line(name, one),
            "value": orjson.dumps({name: [one] if name in ("reads", "writes") else one}).decode(),
            "proposed": is_proposed,
        }
        for name, one, is_proposed in lines
    ]


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
