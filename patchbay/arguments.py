"""Checks arguments against a tool's schema with jsonschema-rs: patterns take linear time, references are not fetched.

Each problem names its place in the arguments and the expected value. The protocol revision of the caller decides
whether the problems become a JSON-RPC error or a result with `isError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

from patchbay.errors import ConfigError

MAX_REPORTED_PROBLEMS = 10
"""Limit on the problems that one check reports."""


def _refuse(uri: str) -> Any:
    raise ValueError(f"the reference {uri} is not fetched: a schema has to be whole in itself")


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(orjson.loads(schema), retriever=_refuse, validate_formats=False)


def validator(schema: Mapping[str, Any]) -> Any:
    """Return the compiled validator of a JSON Schema. Raises ConfigError for an invalid schema."""
    try:
        return _validator(orjson.dumps(schema))
    except (ValueError, orjson.JSONEncodeError, jsonschema_rs.ReferencingError) as problem:
        raise ConfigError("schema", "", f"expected a JSON Schema (draft 2020-12): {problem}") from problem


def problems(checker: Any, value: Any) -> list[dict[str, str]]:
    """Return `{path, message}` for each problem of a value, at most MAX_REPORTED_PROBLEMS; an empty list if it fits."""
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
    """Return the problems of a tool's arguments, as `problems` does, after resolving aliases.

    A property of the schema may name an alias: `"x-alias": "prompt"`. When the arguments do not fit, this function
    renames aliases in `arguments` in place and checks again.
    """
    wrong = problems(checker, arguments)
    return problems(checker, arguments) if wrong and _resolve_aliases(schema, arguments) else wrong


def _resolve_aliases(schema: Mapping[str, Any], arguments: dict[str, Any]) -> bool:
    """Rename the arguments that use an alias; return whether there were any."""
    found = False
    for alias, name in aliases(schema.get("properties", {})).items():
        if alias in arguments and name not in arguments:
            arguments[name] = arguments.pop(alias)
            found = True
    return found


def aliases(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return alias (`x-alias`) -> property name."""
    found: dict[str, str] = {}
    for name, one in properties.items():
        alias = one.get("x-alias") if isinstance(one, Mapping) else None
        if isinstance(alias, str) and alias not in properties:
            found.setdefault(alias, name)
    return found


def describe_problems(found: list[dict[str, str]]) -> str:
    """Return problems as one sentence."""
    parts = [f"{item['path']}: {item['message']}" if item["path"] else item["message"] for item in found]
    return "; ".join(parts)
