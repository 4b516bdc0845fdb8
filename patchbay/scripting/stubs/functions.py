"""Makes a typed Python function of a tool: `async def history(*, count: int = 20) -> list[History_Commit]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.scripting.stubs.names import FreeNames, camel_case, unique_names
from patchbay.scripting.stubs.types import ANY, MAX_MEMBERS, TypeWriter, resolve
from patchbay.views.hidden_characters import escape_hidden_characters

MAX_DESCRIPTION_CHARACTERS = 200
"""Characters of the first line of a description."""

MAX_STUB_CHARACTERS = 24_000
"""Characters of the stub of one tool; one that would be longer takes and gives `Any`."""

MAX_DEFAULT_CHARACTERS = 40

WRAPPED = "x-fastmcp-wrap-result"
"""The member of an outputSchema whose results stand inside an object, as its member `result` (FastMCP)."""

_DEFAULTS: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
"""The types of the defaults that are shown, by annotation."""

HEADER = "from typing import Any, Literal, NotRequired, Sequence, TypedDict"
"""The first line of each module of stubs."""


@dataclass(frozen=True, slots=True)
class FunctionStub:
    """The function of a tool: its text, and the argument of the tool for each parameter with another name."""

    text: str
    renamed: Mapping[str, str]


def function_stub(name: str, wire: Mapping[str, Any], prefix: str, taken: Collection[str]) -> FunctionStub:
    """Return the function `name` of a tool with this wire form.

    `prefix` begins the names of its types, and no other tool of the module has it; `taken` are the names of all
    functions of the module.
    """
    types = TypeWriter(prefix, taken)
    parameters, renamed = _parameters(wire.get("inputSchema"), types)
    given = wire.get("outputSchema")
    shown = given["properties"]["result"] if isinstance(given, Mapping) and is_wrapped(given) else given
    result = ANY if given is None else types.write(shown, "Result", root=given)
    text = _text(name, parameters, result, types.declarations, wire)
    if len(text) > MAX_STUB_CHARACTERS:
        return FunctionStub(_text(name, ["**arguments: Any"], ANY, [], wire), {})
    return FunctionStub(text, renamed)


def is_wrapped(schema: Any) -> bool:
    """Whether the results of an outputSchema stand inside an object of one member, by which FastMCP sends any value."""
    members = schema.get("properties") if isinstance(schema, Mapping) and schema.get(WRAPPED) is True else None
    return isinstance(members, Mapping) and "result" in members


def _text(name: str, parameters: list[str], result: str, declarations: list[str], wire: Mapping[str, Any]) -> str:
    listed = f"*, {', '.join(parameters)}" if parameters and not parameters[0].startswith("**") else "".join(parameters)
    head = f"async def {name}({listed}) -> {result}:"
    return "\n".join([*declarations, head, f"    {_docstring(wire)}" if wire.get("description") else "    ..."])


def _docstring(wire: Mapping[str, Any]) -> str:
    """Return the first line of a description as a literal of ASCII characters."""
    lines = str(wire["description"]).strip().splitlines() or [""]
    return ascii(escape_hidden_characters(lines[0][:MAX_DESCRIPTION_CHARACTERS]))


def _parameters(schema: Any, types: TypeWriter) -> tuple[list[str], dict[str, str]]:
    """Return the parameters of a tool, those without a default first, and the arguments with another name."""
    found = resolve(schema, schema)
    members = found.get("properties", {}) if isinstance(found, Mapping) else None
    has_more = isinstance(found, Mapping) and bool(found.keys() & {"allOf", "anyOf", "oneOf", "patternProperties"})
    if not isinstance(members, Mapping) or len(members) > MAX_MEMBERS or (has_more and not members):
        return ["**arguments: Any"], {}
    further = found.get("additionalProperties")
    if not members:
        return ([] if further is False else ["**arguments: Any"]), {}
    given = found.get("required")
    required = {one for one in given if isinstance(one, str)} if isinstance(given, list) else set()
    names = unique_names(members)
    first, second = [], []
    for key, inner in members.items():
        kind = types.write(inner, camel_case(key), root=schema, is_given=True)
        if key in required:
            first.append(f"{names[key]}: {kind}")
        else:
            second.append(f"{names[key]}: {kind} = {_default(inner, kind)}")
    if has_more or further is True or isinstance(further, Mapping):
        second.append(f"**{FreeNames(set(names.values())).take('more')}: Any")
    return [*first, *second], {name: key for key, name in names.items() if name != key}


def _default(schema: Any, kind: str) -> str:
    """Return the default of a parameter, or `...` for one that does not suit its type or is long."""
    value = schema.get("default") if isinstance(schema, Mapping) else None
    if not isinstance(value, _DEFAULTS.get(kind, ())) or (isinstance(value, bool) and kind != "bool"):
        return "..."
    text = ascii(value)
    return text if len(text) <= MAX_DEFAULT_CHARACTERS and text not in ("nan", "inf", "-inf") else "..."
