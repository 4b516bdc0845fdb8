"""The event types of a Python definition: the dictionary `EVENTS` at its top level, name to type.

    EVENTS = {"incident.created": Incident}

The type is a class with fields; its docstring describes the event. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import jsonschema_rs
import orjson

from patchbay.descriptors import NAME, Descriptor, Problem
from patchbay.errors import TooLarge
from patchbay.occurrences.event_types import event_type
from patchbay.python_functions.classes import documentation
from patchbay.python_functions.schema_definitions import with_definitions
from patchbay.python_functions.schemas import Types
from patchbay.python_functions.scope import Scope

DECLARATION = "EVENTS"
"""The name of the dictionary."""


def read_event_types(scope: Scope, types: Types) -> tuple[list[Descriptor], list[Problem]]:
    """Return the event types of a definition, and the reasons why others are not listed."""
    found = list(_read_all(scope, types))
    return (
        [one for one in found if isinstance(one, Descriptor)],
        [one for one in found if isinstance(one, Problem)],
    )


def _read_all(scope: Scope, types: Types) -> Iterator[Descriptor | Problem]:
    declared = scope.names.get(DECLARATION)
    if not isinstance(declared, ast.Dict):
        return
    for key, node in zip(declared.keys, declared.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            yield Problem(
                DECLARATION,
                "the name of an event type is a text of 1 to 128 ASCII letters, digits, dots, dashes and underscores",
                node.lineno,
            )
            continue
        yield _read(name, node, scope, types)


def _read(name: str, node: ast.expr, scope: Scope, types: Types) -> Descriptor | Problem:
    try:
        schemas, shared = types.schema({"data": node}, closed=False)
        payload = with_definitions(schemas["data"], shared)
        if payload.get("type") != "object":
            return Problem(name, "the type of an event has to be a class with fields, such as a TypedDict", node.lineno)
        orjson.dumps(payload)
        jsonschema_rs.Draft202012Validator(payload, pattern_options=jsonschema_rs.RegexOptions())
    except TooLarge as problem:
        return Problem(name, problem.message, node.lineno)
    except (orjson.JSONEncodeError, jsonschema_rs.ValidationError) as problem:
        reason = str(problem).partition("\n")[0]
        return Problem(name, f"its payload schema would not be valid: {reason}", node.lineno)
    local = scope.local(node)
    description = documentation(local).first if isinstance(local, ast.ClassDef) else ""
    return event_type(name, description or "", payload, {}, "discovered")
