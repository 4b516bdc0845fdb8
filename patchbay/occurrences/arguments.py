"""Subscription arguments: simple fields of the payload as filters, and the schemas of an event type.

A subscriber may name a value for each field of the payload that is a text, a number or a truth value; it then gets
only events with these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.arguments import describe_problems, problems, validator
from patchbay.errors import InvalidParams

FILTERED = frozenset(("string", "integer", "number", "boolean"))
"""Types of the fields that a subscriber can filter by."""


def filter_schema(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments that filter by the simple fields of a payload."""
    properties = payload.get("properties")
    found = {
        name: {key: value for key, value in field.items() if key != "default"}
        for name, field in (properties.items() if isinstance(properties, Mapping) else ())
        if isinstance(field, Mapping) and (field.get("type") in FILTERED or _is_enum(field))
    }
    return {"type": "object", "properties": found, "additionalProperties": False}


def _is_enum(field: Mapping[str, Any]) -> bool:
    values = field.get("enum")
    return isinstance(values, list) and all(isinstance(one, (str, int, float)) for one in values)


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return the arguments of a subscription. Raises InvalidParams for those that do not fit the schema."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidParams("params.arguments has to be an object")
    wrong = problems(validator(schema), arguments)
    if wrong:
        raise InvalidParams(
            f"the arguments do not fit the inputSchema of the event: {describe_problems(wrong)}", {"details": wrong}
        )
    return arguments


def matches(arguments: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether an event has the values that the arguments name."""
    return all(name in data and data[name] == value for name, value in arguments.items())
