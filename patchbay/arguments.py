"""Arguments checked against a tool's schema by jsonschema-rs: linear-time patterns, no reference is ever fetched.

What a value has to be is said with its place; X-2 decides how the caller hears of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

from patchbay.errors import ConfigError

MAX_REPORTED_PROBLEMS = 10
"""How many problems of one value are told at once."""


def _refuse(uri: str) -> Any:
    raise ValueError(f"the reference {uri} is not fetched: a schema has to be whole in itself")


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(orjson.loads(schema), retriever=_refuse, validate_formats=False)


def validator(schema: Mapping[str, Any]) -> Any:
    """The compiled validator of a JSON Schema. Raises ConfigError when it is none."""
    try:
        return _validator(orjson.dumps(schema))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as problem:
        raise ConfigError("schema", "", f"expected a JSON Schema (draft 2020-12): {problem}") from problem


def problems(checker: Any, value: Any) -> list[dict[str, str]]:
    """What is wrong with a value: `{path, message}` for each problem, at most ten; an empty list when it fits."""
    if checker.is_valid(value):
        return []
    found = []
    for error in checker.iter_errors(value):
        path = ".".join(str(part) for part in error.instance_path)
        found.append({"path": path, "message": error.message[:500]})
        if len(found) == MAX_REPORTED_PROBLEMS:
            break
    return found


def misfits(checker: Any, schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[dict[str, str]]:
    """What is wrong with a tool's arguments, after those given under another name have been put under their own.

    A property of the schema may say its other name: `"x-alias": "prompt"` (SUB-C14). `arguments` are changed in place,
    and only where they do not fit as they are.
    """
    wrong = problems(checker, arguments)
    return problems(checker, arguments) if wrong and _renamed(schema, arguments) else wrong


def _renamed(schema: Mapping[str, Any], arguments: dict[str, Any]) -> bool:
    """Put arguments under their own names; whether there were any under another."""
    found = False
    for alias, name in aliases(schema.get("properties", {})).items():
        if alias in arguments and name not in arguments:
            arguments[name] = arguments.pop(alias)
            found = True
    return found


def aliases(properties: Mapping[str, Any]) -> dict[str, str]:
    """The other names of properties (`x-alias`) with the names that they stand for."""
    found: dict[str, str] = {}
    for name, one in properties.items():
        alias = one.get("x-alias") if isinstance(one, Mapping) else None
        if isinstance(alias, str) and alias not in properties:
            found.setdefault(alias, name)
    return found


def describe_problems(found: list[dict[str, str]]) -> str:
    """Problems as one sentence."""
    parts = [f"{item['path']}: {item['message']}" if item["path"] else item["message"] for item in found]
    return "; ".join(parts)
