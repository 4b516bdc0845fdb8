"""Loaders and a dumper of PyYAML that follow the core schema of YAML 1.2, for the front matter of documents.

A date, a time, `no` and `on` stay the texts that they are. One deviation from the core schema: a number with a leading
zero (`0123`) stays a text, because in front matter it is a name. Merge keys (`<<`) of YAML 1.1 still work, because
documents use them. A repeated key is an error that has the values too.
Source: https://yaml.org/spec/1.2.2/#103-core-schema; https://yaml.org/type/merge.html.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import yaml

from patchbay.yaml_core.schema import FALSE, FLOAT, INTEGER, LEADING_ZERO, NOT_FINITE, NULL, TRUE, full_match

_PREFIX = "tag:yaml.org,2002:"
_RULES = (
    ("null", NULL, ["~", "n", "N", ""]),
    ("bool", f"{TRUE}|{FALSE}", list("tTfF")),
    ("int", rf"(?!{LEADING_ZERO})(?:{INTEGER})", list("-+0123456789")),
    ("float", rf"(?!{LEADING_ZERO})(?:{FLOAT}|{NOT_FINITE})", list("-+.0123456789")),
    ("merge", "<<", ["<"]),
)


class RepeatedKeys(yaml.YAMLError):  # type: ignore[misc]
    """Some keys of a mapping occur more than once. `value` is the whole value, with the last value of each key."""

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


class _CoreValues:
    """What both loaders share. Raises RepeatedKeys after it has made the value."""

    def get_single_data(self: Any) -> Any:
        node = self.get_single_node()
        if node is None:
            return None
        repeated = _find_repeated_keys(node)
        value = self.construct_document(node)
        if repeated:
            raise RepeatedKeys("; ".join(repeated), value)
        return value


class CoreLoader(_CoreValues, yaml.SafeLoader):  # type: ignore[misc]
    """Reads any nesting up to Python's limit of recursion."""


class FastCoreLoader(_CoreValues, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The parser in C. Deep nesting overflows its stack, so give it only blocks with little nesting."""


class CoreDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes each text that YAML 1.1 or YAML 1.2 reads as another value, so that all programs read the same.

    A date is written as a text in ISO 8601, because the core schema has no dates.
    """


def _add_rules(target: Any) -> None:
    for name, rule, first in _RULES:
        target.add_implicit_resolver(_PREFIX + name, full_match(rule), first)


for _loader in (CoreLoader, FastCoreLoader):
    _loader.yaml_implicit_resolvers = {}
    _add_rules(_loader)
_add_rules(CoreDumper)


def _represent_date(dumper: Any, value: date) -> Any:
    return dumper.represent_str(value.isoformat())


for _type in (date, datetime):
    CoreDumper.add_representer(_type, _represent_date)


def _find_repeated_keys(root: Any) -> list[str]:
    """Return a sentence for each repeated key, before merge keys are resolved. Visits each node once."""
    found: list[str] = []
    seen: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            left += (key, value)
            if not isinstance(key, yaml.ScalarNode):
                continue
            line, first = key.start_mark.line + 1, lines.get((key.tag, key.value))
            if first is not None:
                found.append(f"the key {key.value[:60]!r} of line {first} occurs again in line {line}")
            lines[key.tag, key.value] = line
    return sorted(found)
