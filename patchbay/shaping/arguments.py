"""The arguments of a tool as a toolset shapes them: fixed, with a default, renamed, described.

A caller gives the arguments that it sees; the origin gets its own. Who sends an argument that the toolset fixes is
refused, also under another spelling, an alias or the origin's name. What the origin gets is checked against the schema
of the origin, and an error names an argument as the caller knows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unicodedata import normalize

from patchbay.activation import Call, Events
from patchbay.arguments import aliases, describe_problems, misfits, validator
from patchbay.errors import ConfigError, ToolFailed, WrongArguments
from patchbay.events import Failed
from patchbay.shaping.shaped_schema import Shape, shape_schema
from patchbay.suggestions import find_similar_names

CALLER = "caller"
"""The only member of a `value` that stands for something about the caller."""

CALLER_FACTS = ("id", "groups", "email")
"""What a value may be about the caller: the id of its principal, the groups that its credentials assert, sorted, or its
e-mail address, which its issuer has verified."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a toolset says about one argument: `value` or `default` in a tuple if it has one, `caller` for a value that
    is a fact about the caller, another name, a description.
    """

    value: tuple[Any, ...] = ()
    caller: str = ""
    default: tuple[Any, ...] = ()
    name: str = ""
    description: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether callers cannot give the argument."""
        return bool(self.value or self.caller)


def parse_argument(given: Mapping[str, Any]) -> Argument:
    """Return what checked fields say about an argument."""
    default = (given["default"],) if "default" in given else ()
    texts = {"name": given.get("name", ""), "description": given.get("description", "")}
    if "value" not in given:
        return Argument(default=default, **texts)
    value = given["value"]
    if isinstance(value, Mapping) and value.keys() == {CALLER}:
        return Argument(caller=str(value[CALLER]), **texts)
    return Argument(value=(value,), **texts)


def check_arguments(arguments: Mapping[str, Mapping[str, Any]], where: str, path: str) -> None:
    """Check what a configuration says about arguments. Raises ConfigError."""
    shown: dict[str, str] = {}
    for name, given in arguments.items():
        place, argument = f"{path}.{name}", parse_argument(given)
        if argument.is_fixed and (others := given.keys() - {"value"}):
            raise ConfigError(where, place, f'expected "value" alone, without {", ".join(sorted(others))}')
        if argument.caller and argument.caller not in CALLER_FACTS:
            close = find_similar_names(argument.caller, CALLER_FACTS)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ConfigError(where, f"{place}.value.caller", f"expected {' or '.join(CALLER_FACTS)}{hint}")
        other = shown.setdefault(argument.name or name, name) if not argument.is_fixed else name
        if other != name:
            raise ConfigError(where, f"{place}.name", f"expected another name: {other} has this one")


@dataclass(frozen=True)
class ArgumentShaping:
    """How the arguments of one tool are shaped; `schema` is that of the origin, `shown` that of callers.

    `is_unchecked` says that the hub does not check the arguments of the origin, because a mounted server does.
    """

    arguments: Mapping[str, Argument]
    schema: Mapping[str, Any]
    shown: Mapping[str, Any]
    is_unchecked: bool
    closed: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def names(self) -> dict[str, str]:
        """The origin's name by the name that callers know, for renamed arguments."""
        return {one.name: name for name, one in self.arguments.items() if one.name and one.name != name}

    @cached_property
    def _checkers(self) -> tuple[Any, Any]:
        return validator(self.schema), validator(self.shown)

    def make_arguments(self, given: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """Return the arguments of the origin for those of a caller. Raises WrongArguments, ToolFailed."""
        known = self.shown.get("properties", {})
        for name in given:
            if name not in known and _folded(name) in self.closed:
                _refuse([{"path": name, "message": f"{name} is not an argument of this tool"}])
        if self.is_unchecked and (wrong := misfits(self._checkers[1], self.shown, dict(given))):
            _refuse(wrong)
        found = {self.names.get(name, name): value for name, value in given.items()}
        for name, argument in self.arguments.items():
            if argument.caller:
                found[name] = _fact(argument.caller, call)
            elif argument.value:
                found[name] = argument.value[0]
            elif argument.default:
                found.setdefault(name, argument.default[0])
        if not self.is_unchecked and (wrong := misfits(self._checkers[0], self.schema, found)):
            _refuse([self._as_shown(one) for one in wrong])
        return found

    def _as_shown(self, problem: Mapping[str, str]) -> dict[str, str]:
        """Return a problem of the arguments of the origin as one of those that the caller knows."""
        first, dot, rest = problem["path"].partition(".")
        argument = self.arguments.get(first)
        if argument is not None and argument.is_fixed:
            return {"path": "", "message": "a value that the toolset sets does not fit"}
        shown = argument.name if argument is not None and argument.name else first
        return {"path": f"{shown}{dot}{rest}", "message": self.rename(problem["message"])}

    def rename(self, text: str) -> str:
        """Return a text of the origin with the names of arguments that the caller knows."""
        for shown, name in self.names.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", shown.replace("\\", r"\\"), text)
        return text

    def rename_failures(self, events: Events) -> Events:
        """Yield events; a failure names arguments as the caller knows them."""
        reply: Any = None
        try:
            while True:
                event = events.send(reply)
                if isinstance(event, Failed) and event.result is None:
                    event = replace(event, message=self.rename(event.message))
                reply = yield event
        except StopIteration:
            return
        finally:
            events.close()


def make_shaping(arguments: Mapping[str, Argument], schema: Mapping[str, Any], is_unchecked: bool) -> ArgumentShaping:
    """Return how the arguments of a tool with this schema are shaped.

    Raises ConfigError for an impossible change, and for what is not a JSON Schema: nothing checks those of mounts.
    """
    _check_schema(schema, "the schema of the origin is not valid")
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for name, argument in arguments.items():
        if name not in properties:
            close = find_similar_names(name, list(properties))
            hint = f"; did you mean {' or '.join(close[:2])}?" if close else ""
            raise ConfigError("", "", f"the origin has no argument {name}{hint}")
        if argument.name and argument.name != name and argument.name in properties:
            is_free = argument.name in arguments and (
                arguments[argument.name].is_fixed or arguments[argument.name].name not in ("", argument.name)
            )
            if not is_free:
                raise ConfigError("", "", f"{name} cannot be called {argument.name}: the origin has this argument")
        for value in (*argument.value, *argument.default):
            _check_value(name, value, schema)
    shape = Shape(
        {name: one.value[0] for name, one in arguments.items() if one.value},
        frozenset(name for name, one in arguments.items() if one.caller),
        frozenset(name for name, one in arguments.items() if one.default),
        {name: one.name for name, one in arguments.items() if one.name and not one.is_fixed},
    )
    shown = shape_schema(schema, shape)
    for name, argument in arguments.items():
        if not argument.is_fixed:
            _describe(shown["properties"], argument.name or name, argument)
    known = aliases(properties)
    moved = {name for name, one in arguments.items() if one.is_fixed or (one.name and one.name != name)}
    closed = {_folded(one) for one in (*moved, *(alias for alias, name in known.items() if name in shape.hidden))}
    _check_schema(shown, "the schema for callers would not be valid")
    return ArgumentShaping(arguments, schema, shown, is_unchecked, frozenset(closed))


def _check_schema(schema: Mapping[str, Any], sentence: str) -> None:
    """Check that this is a JSON Schema. Raises ConfigError with the sentence and the reason."""
    try:
        validator(schema)
    except ConfigError as problem:
        reason = problem.expected.partition("\n")[0]
        raise ConfigError("", "", f"{sentence}: {reason[:300]}") from problem


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Check that a value fits an argument. Raises ConfigError."""
    part = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    checker = validator({**part, "properties": {name: schema["properties"][name]}})
    if not checker.is_valid({name: value}):
        error = next(iter(checker.iter_errors({name: value})))
        raise ConfigError("", "", f"the value of {name} does not fit the origin: {error.message[:300]}")


def _describe(properties: dict[str, Any], name: str, argument: Argument) -> None:
    said: dict[str, Any] = {"description": argument.description} if argument.description else {}
    if argument.default:
        said["default"] = argument.default[0]
    if said:
        known = properties[name]
        properties[name] = {**(known if isinstance(known, Mapping) else {}), **said}


def _folded(name: str) -> str:
    """Return a name without differences of case, width and separators."""
    return re.sub(r"[\s_.\-]", "", normalize("NFKC", name).casefold())


def _fact(fact: str, call: Call) -> Any:
    """Return a fact about the caller. Raises ToolFailed for a call without one."""
    if fact == "groups":
        return sorted(getattr(call.sender, "groups", ()))
    if call.sender is None:
        raise ToolFailed("this tool needs to know its caller, and the hub itself calls it")
    if fact == "email":
        return _email_of(call)
    return call.principal


def _email_of(call: Call) -> str:
    """Return the verified e-mail address of a caller. Raises ToolFailed for a caller without one."""
    email = getattr(call.sender, "email", "")
    if not email:
        raise ToolFailed(
            "this tool needs the e-mail address of its caller: expected a token of the outside issuer with the claims"
            " email and email_verified (true)"
        )
    return str(email)


def _refuse(wrong: list[dict[str, str]]) -> None:
    raise WrongArguments(f"the arguments do not fit: {describe_problems(wrong)}", {"details": wrong})
