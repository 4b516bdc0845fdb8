"""Parse the YAML block at the head of a SKILL.md as a JSON object, as every parser of YAML 1.2 reads it.

PyYAML implements YAML 1.1, where `no` is a boolean and a date is not a string, so only its parser is used; plain
scalars become values by the core schema of YAML 1.2. Values without a JSON form, and constructs that can grow (aliases,
tags, deep nesting), are refused.

Source: https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from patchbay.yaml_core.schema import FALSE, FLOAT, INTEGER, NOT_FINITE, NULL, TRUE, full_match

BLOCK = re.compile(r"\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)
MAX_BLOCK_CHARACTERS = 64 * 1024
"""Maximum characters of the block."""

MAX_DEPTH = 16
"""Maximum nesting depth."""

MAX_INTEGER = 2**63

_NULL = full_match(NULL)
_TRUE = full_match(TRUE)
_FALSE = full_match(FALSE)
_INTEGER = full_match(INTEGER)
_NUMBER = full_match(FLOAT)
_NO_JSON = full_match(NOT_FINITE)


def parse_front_matter(text: str) -> dict[str, Any]:
    """Return the block as an object. Raises ValueError with the expectation."""
    found = BLOCK.match(text)
    if found is None:
        raise ValueError("expected YAML between two lines of --- at its beginning")
    if len(found[1]) > MAX_BLOCK_CHARACTERS:
        raise ValueError(f"expected at most {MAX_BLOCK_CHARACTERS} characters of YAML at its beginning")
    try:
        events = iter(yaml.parse(found[1], Loader=yaml.SafeLoader))
        value = _document(events)
    except yaml.YAMLError as problem:
        raise ValueError(f"expected valid YAML at its beginning; {' '.join(str(problem).split())}") from problem
    if not isinstance(value, dict):
        raise ValueError("expected YAML with names and values at its beginning")
    return value


def _document(events: Iterator[Any]) -> Any:
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            return _value(next(events), events, 0)
    return None


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    if isinstance(event, yaml.AliasEvent):
        raise ValueError(f"expected no alias; there is *{event.anchor}")
    if event.tag is not None:
        raise ValueError(f"expected no tag; there is {event.tag}")
    if depth > MAX_DEPTH:
        raise ValueError(f"expected YAML that nests at most {MAX_DEPTH} levels")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar_value(event.value) if event.implicit[0] else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        return [_value(inner, events, depth + 1) for inner in _until(yaml.SequenceEndEvent, events)]
    found: dict[str, Any] = {}
    for key in _until(yaml.MappingEndEvent, events):
        if not isinstance(key, yaml.ScalarEvent) or key.value in found:
            raise ValueError("expected each key to be a string, and to occur once")
        found[key.value] = _value(next(events), events, depth + 1)
    return found


def _until(end: type[Any], events: Iterator[Any]) -> Iterator[Any]:
    for event in events:
        if isinstance(event, end):
            return
        yield event


def _scalar_value(text: str) -> Any:
    """Return the value of an unquoted scalar, by the core schema."""
    if _NULL.match(text):
        return None
    if _TRUE.match(text) or _FALSE.match(text):
        return _TRUE.match(text) is not None
    if _INTEGER.match(text):
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if abs(number) >= MAX_INTEGER:
            raise ValueError(f"expected numbers of at most 64 bits; there is {text[:40]}")
        return number
    if _NO_JSON.match(text):
        raise ValueError(f"expected a number that JSON allows; there is {text}")
    return float(text) if _NUMBER.match(text) else text
