"""The schema of a tool's arguments after a toolset fixed, renamed or described some of them.

What callers see stays JSON Schema 2020-12. A fixed argument leaves it: everything that the schema says about it is
decided by its value. `allOf`, `anyOf`, `oneOf`, `not`, `if` and a reference to a definition, which speak of the same
object, are changed in the same way. A schema that cannot be changed so is refused; nothing of it is guessed.
Sources: JSON Schema 2020-12, Core 10.2 (in-place applicators), 10.3.2 (properties), 11.3 (unevaluatedProperties);
Validation 6.5 (required, dependentRequired).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.arguments import validator
from patchbay.errors import ConfigError

MAX_REFERENCES = 32
"""Limit on references from one to the next that lead to what is said about the arguments."""

MAX_PARTS = 1_000
"""Limit on the parts of a schema that speak of the arguments, where each reference counts as what it leads to."""

DEFINITIONS = ("$defs", "definitions")

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONES = ("not", "if", "then", "else")
_OTHERS = ("additionalProperties", "unevaluatedProperties")
_REFUSED = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor", "$id")
"""Keywords with which a part of a schema means something else in another place."""

_ONE_OF_EACH_TYPE: tuple[Any, ...] = (None, True, 1, 0.5, "x", [], {})


@dataclass(frozen=True, slots=True)
class Shape:
    """What changes: the fixed arguments with their values, those whose value only the call gives, the arguments with a
    default, which are always there, and the new names of others.
    """

    fixed: Mapping[str, Any]
    unknown: frozenset[str]
    defaults: frozenset[str]
    names: Mapping[str, str]

    @property
    def hidden(self) -> frozenset[str]:
        """The names of all arguments that callers do not give."""
        return frozenset(self.fixed) | self.unknown

    @property
    def present(self) -> frozenset[str]:
        """The names of all arguments that the origin always gets."""
        return self.hidden | self.defaults


def shape_schema(schema: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a schema of arguments as callers see it. Raises ConfigError with the reason for one that cannot be shaped.

    Where the schema says nothing about other arguments, or allows any, and one is fixed, it has no others: an origin
    that knows another spelling of a fixed argument does not get it.
    """
    _check_references(schema)
    shaped = _Shaper(schema, shape).reduce(schema, 0)
    if shaped is False:
        raise ConfigError("", "", "the fixed values do not fit the schema of the origin")
    assert isinstance(shaped, dict)
    shaped.setdefault("type", "object")
    if shape.hidden and shaped.keys().isdisjoint(_OTHERS):
        is_simple = not any(key in shaped for key in (*_IN_PLACE_LISTS, "if", "dependentSchemas", "patternProperties"))
        shaped["additionalProperties" if is_simple else "unevaluatedProperties"] = False
    return _with_definitions(shaped, schema)


class _Shaper:
    """Changes the parts of one schema that speak of the arguments themselves."""

    def __init__(self, root: Mapping[str, Any], shape: Shape) -> None:
        self._definitions = {key: root[key] for key in DEFINITIONS if key in root}
        self._shape = shape
        self._root = root
        self._parts = 0

    def reduce(self, schema: Any, depth: int) -> dict[str, Any] | bool:
        """Return a schema of the arguments without the fixed ones, and with the new names; False if none can fit."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise ConfigError("", "", "a part of the schema of the origin is neither an object nor true or false")
        if depth > MAX_REFERENCES:
            raise ConfigError("", "", "the references of the schema of the origin lead too far, or back")
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConfigError("", "", f"the schema of the origin has more than {MAX_PARTS} parts about its arguments")
        _check_forms(schema)
        shaped = {
            key: value for key, value in schema.items() if key not in DEFINITIONS and key not in ("$ref", "$schema")
        }
        if self._shape.hidden:
            for key in _OTHERS:
                if key in shaped and self._takes_anything(shaped[key]):
                    del shaped[key]
        more: list[Any] = []
        if "$ref" in schema:
            more.append(self.reduce(self._target(schema["$ref"]), depth + 1))
        if not self._reduce_properties(shaped, depth):
            return False
        more += self._reduce_dependencies(shaped, depth)
        self._reduce_counts(shaped)
        if not self._reduce_in_place(shaped, depth):
            return False
        if any(one is False for one in more):
            return False
        kept = [one for one in more if one is not True and one != {}]
        if kept:
            shaped["allOf"] = [*shaped.get("allOf", ()), *kept]
        return shaped

    def _reduce_properties(self, shaped: dict[str, Any], depth: int) -> bool:
        """Change `properties` and `required`, and refuse patterns of names; False if a fixed value does not fit."""
        shape = self._shape
        properties = shaped.get("properties", {})
        for name, value in shape.fixed.items():
            if name in properties and not self._fits(properties[name], value):
                return False
        if depth and not shape.unknown.isdisjoint(properties):
            raise ConfigError("", "", "the schema of the origin has conditions for an argument that the caller decides")
        if "properties" in shaped:
            shaped["properties"] = {
                shape.names.get(name, name): one for name, one in properties.items() if name not in shape.hidden
            }
        if "required" in shaped:
            shaped["required"] = [shape.names.get(one, one) for one in shaped["required"] if one not in shape.present]
            if not shaped["required"]:
                del shaped["required"]
        for key in ("patternProperties", "propertyNames"):
            if key in shaped and (shape.names or shape.hidden):
                raise ConfigError("", "", f"the schema of the origin has {key}, so that no argument can be shaped")
        return True

    def _reduce_dependencies(self, shaped: dict[str, Any], depth: int) -> list[Any]:
        """Change `dependentRequired` and `dependentSchemas`; return the schemas that hold in any case."""
        shape, more = self._shape, list[Any]()
        required = shaped.pop("dependentRequired", {})
        always = [
            one for name in required if name in shape.present for one in required[name] if one not in shape.present
        ]
        if always:
            more.append({"required": [shape.names.get(one, one) for one in dict.fromkeys(always)]})
        kept = {
            shape.names.get(name, name): [shape.names.get(one, one) for one in those if one not in shape.present]
            for name, those in required.items()
            if name not in shape.present
        }
        if kept := {name: those for name, those in kept.items() if those}:
            shaped["dependentRequired"] = kept
        schemas = shaped.pop("dependentSchemas", {})
        more += [self.reduce(one, depth + 1) for name, one in schemas.items() if name in shape.present]
        rest = {
            shape.names.get(name, name): self.reduce(one, depth + 1)
            for name, one in schemas.items()
            if name not in shape.present
        }
        if rest:
            shaped["dependentSchemas"] = rest
        return more

    def _reduce_counts(self, shaped: dict[str, Any]) -> None:
        """Change the numbers of properties, of which the fixed ones are always there."""
        count = len(self._shape.hidden)
        for key in ("minProperties", "maxProperties"):
            if key in shaped:
                shaped[key] = max(0, int(shaped[key]) - count)

    def _reduce_in_place(self, shaped: dict[str, Any], depth: int) -> bool:
        """Change the schemas that speak of the same object. False if no object fits all of `allOf`."""
        for key in _IN_PLACE_LISTS:
            if key in shaped:
                shaped[key] = [self.reduce(one, depth + 1) for one in shaped[key]]
        for key in _IN_PLACE_ONES:
            if key in shaped:
                shaped[key] = self.reduce(shaped[key], depth + 1)
        if any(one is False for one in shaped.get("allOf", ())):
            return False
        return not ("anyOf" in shaped and all(one is False for one in shaped["anyOf"]))

    def _fits(self, schema: Any, value: Any) -> bool:
        checker = validator({**self._definitions, "properties": {"value": schema}})
        return bool(checker.is_valid({"value": value}))

    def _takes_anything(self, schema: Any) -> bool:
        """Whether a schema of other arguments describes none: a value of each type fits."""
        return all(self._fits(schema, value) for value in _ONE_OF_EACH_TYPE)

    def _target(self, reference: Any) -> Any:
        """Return the definition that a reference names."""
        found: Any = self._root
        for part in str(reference).removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise ConfigError("", "", f"the schema of the origin has no {str(reference)[:80]}")
            found = found[key]
        return found


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _has_names(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_are_names(one) for one in value.values())


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and value >= 0 and (isinstance(value, int) or value.is_integer())


_FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("properties", "dependentSchemas"), (_is_object, "an object")),
    **dict.fromkeys(_IN_PLACE_LISTS, (_is_list, "a list")),
    **dict.fromkeys(("minProperties", "maxProperties"), (_is_count, "a number of properties")),
    "required": (_are_names, "a list of names"),
    "dependentRequired": (_has_names, "an object of lists of names"),
}
"""What each member that this module changes has to be, and how a sentence calls it."""


def _check_forms(schema: Mapping[str, Any]) -> None:
    """Check the members that this module changes. Raises ConfigError.

    A valid schema may have any value there when it names a draft that does not know the member (`$schema`).
    """
    for key, (is_right, expected) in _FORMS.items():
        if key in schema and not is_right(schema[key]):
            raise ConfigError("", "", f"{key} in the schema of the origin is not {expected}")


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each object in a JSON value, the value first."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _check_references(schema: Mapping[str, Any]) -> None:
    """Check that references lead to definitions only, which stay where they are. Raises ConfigError."""
    for part in _parts(schema):
        reference = part.get("$ref")
        if isinstance(reference, str) and not reference.startswith(tuple(f"#/{key}/" for key in DEFINITIONS)):
            raise ConfigError(
                "", "", f"the schema of the origin refers to {reference[:80]}, which shaping would change"
            )
        found = next((key for key in _REFUSED if isinstance(part.get(key), str)), None)
        if found is not None:
            raise ConfigError("", "", f"the schema of the origin has {found}, so that no argument can be shaped")


def _with_definitions(shaped: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shaped schema with those definitions that it still refers to."""
    wanted: dict[tuple[str, str], Any] = {}
    waiting: list[Any] = [shaped]
    while waiting:
        for part in _parts(waiting.pop()):
            reference = part.get("$ref")
            if not isinstance(reference, str):
                continue
            place, name = reference.removeprefix("#/").split("/")[:2]
            name = name.replace("~1", "/").replace("~0", "~")
            if (place, name) not in wanted and name in schema.get(place, {}):
                wanted[place, name] = schema[place][name]
                waiting.append(wanted[place, name])
    found = {key: shaped[key] for key in shaped}
    for (place, name), one in wanted.items():
        found[place] = {**found.get(place, {}), name: one}
    return {**({"$schema": schema["$schema"]} if "$schema" in schema else {}), **found}
