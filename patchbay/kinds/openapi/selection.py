"""Which operations of an API are served: by tag, path, method and name, as `include` and `exclude` say.

An operation is included when each field of `include` matches it, and excluded when a field of `exclude` does. Patterns
are as in a shell: `*`, `?`, `[...]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchbay.client.openapi.operations import Operation

FIELDS = ("tags", "paths", "methods", "operations")

Rows = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The operations that a configuration selects: patterns by field."""

    include: Rows = ()
    exclude: Rows = ()

    def selects(self, operation: Operation, name: str) -> bool:
        """Whether an operation, whose tool has this name, is served."""
        values = _list_values(operation, name)
        is_included = all(_matches(values[field], patterns) for field, patterns in self.include)
        return is_included and not any(_matches(values[field], patterns) for field, patterns in self.exclude)


def parse_selection(fields: Mapping[str, Any]) -> Selection:
    """Return the selection of a configuration's fields `include` and `exclude`."""
    include, exclude = (fields.get(key, {}) for key in ("include", "exclude"))
    return Selection(_parse_rows(include), _parse_rows(exclude))


def _parse_rows(found: Mapping[str, Sequence[str]]) -> Rows:
    return tuple((field, tuple(found[field])) for field in FIELDS if field in found)


def _list_values(operation: Operation, name: str) -> dict[str, list[str]]:
    tags = operation.raw.get("tags")
    given = operation.raw.get("operationId")
    return {
        "tags": [str(tag) for tag in tags] if isinstance(tags, list) else [],
        "paths": [operation.path],
        "methods": [operation.method.upper()],
        "operations": [name, *([given] if isinstance(given, str) else [])],
    }


def _matches(values: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
