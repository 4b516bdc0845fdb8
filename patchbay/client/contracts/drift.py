"""Changes between two lists of tools, each breaking, non-breaking, or for review.

A call that worked and does not any more is breaking (a tool or a used parameter removed or renamed, a parameter newly
required, fewer values accepted). Accepting more is non-breaking. A change that breaks no call, but may change its
effect or mislead a model, is for review: descriptions, defaults, annotations, output. Two lists are without changes
exactly when their tools have equal contract fields. Takes plain lists of tool dicts as in the result of `tools/list`.

Source: MCP specification, server/tools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from patchbay.client.contracts.canonical_json import ContractError, encode_canonical_json
from patchbay.client.contracts.schema_drift import (
    SchemaDifference,
    compare_schemas,
    compute_name_similarity,
    match_names,
    warn_of_invisible_characters,
)
from patchbay.suggestions import split_words

Tool = Mapping[str, Any]
ChangeKind = Literal["breaking", "review", "non-breaking"]

CONTRACT_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")
"""The fields of a tool that make its contract. Icons and `_meta` change its appearance, often at every start."""

CHANGE_KINDS: tuple[ChangeKind, ...] = ("breaking", "review", "non-breaking")
HINT_DEFAULTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""Annotations about the effect of a tool, and the default of each (MCP specification, ToolAnnotations)."""

_TEXT_KEYWORDS = frozenset({"title", "description", "examples", "$comment", "$schema"})
_INPUT_KINDS: Mapping[str, ChangeKind] = {
    "narrower": "breaking",
    "wider": "non-breaking",
    "replaced": "breaking",
    "changed": "review",
    "lost": "breaking",
    "text": "review",
    "label": "non-breaking",
}
_OUTPUT_KINDS: Mapping[str, ChangeKind] = {
    "narrower": "non-breaking",
    "wider": "review",
    "replaced": "review",
    "changed": "review",
    "lost": "review",
    "text": "review",
    "label": "non-breaking",
}


@dataclass(frozen=True, slots=True)
class ContractChange:
    """One change of one tool: its place (a JSON pointer into the tool), its kind, and a sentence for people."""

    tool: str
    path: str
    kind: ChangeKind
    sentence: str

    def to_json(self) -> dict[str, str]:
        """Convert the change to a JSON object."""
        return asdict(self)


def index_tools(tools: Sequence[Any]) -> dict[str, Tool]:
    """Index tools by name. Raises ContractError for a tool without a name, or two with the same name."""
    found: dict[str, Tool] = {}
    for number, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ContractError(f"tool {number + 1} of {len(tools)}: expected an object with a name")
        if name in found:
            raise ContractError(f"the tool {name!r} appears twice; expected each name once")
        found[name] = tool
    return found


def get_contract_fields(tool: Tool) -> dict[str, Any]:
    """Get the fields of a tool that make its contract; absent and null are equal."""
    return {key: tool[key] for key in CONTRACT_FIELDS if tool.get(key) is not None}


def detect_schema_changes(
    old: Sequence[Tool], new: Sequence[Tool], used: Mapping[str, Collection[str]] | None = None
) -> list[ContractChange]:
    """Find every change from the old tools to the new ones, breaking first, in order of the tools' names.

    `used` names the tools and parameters that matter (a profile's): changes of others are not breaking. None: all of
    them matter. Raises ContractError for values that are not lists of tools.
    """
    before, after = index_tools(old), index_tools(new)
    gone = sorted(before.keys() - after.keys())
    added = sorted(after.keys() - before.keys())
    renamed = _find_renamed_tools({name: before[name] for name in gone}, {name: after[name] for name in added})
    found: list[ContractChange] = []
    for name in sorted(before.keys() | after.keys()):
        if name in renamed:
            found.append(ContractChange(name, "/name", "breaking", f"Tool '{name}': Renamed to '{renamed[name]}'"))
            found += _compare_tools(renamed[name], before[name], after[renamed[name]])
        elif name not in after:
            found.append(ContractChange(name, "", "breaking", f"Tool '{name}': Removed"))
        elif name in before:
            found += _compare_tools(name, before[name], after[name], None if used is None else used.get(name, ()))
        elif name not in renamed.values():
            found.append(ContractChange(name, "", "non-breaking", f"Tool '{name}': New tool added"))
    if used is not None:
        found = [_downgrade_if_unused(change, used) for change in found]
    return sorted(found, key=lambda change: CHANGE_KINDS.index(change.kind))


def find_gravest_kind(changes: Sequence[ContractChange]) -> ChangeKind | None:
    """Find the gravest kind among changes; None without changes."""
    return next((kind for kind in CHANGE_KINDS if any(change.kind == kind for change in changes)), None)


def _downgrade_if_unused(change: ContractChange, used: Mapping[str, Collection[str]]) -> ContractChange:
    if change.kind != "breaking" or change.tool in used:
        return change
    return ContractChange(change.tool, change.path, "non-breaking", f"{change.sentence} (not used by the profile)")


def _compare_tools(name: str, old: Tool, new: Tool, used: Collection[str] | None = None) -> Iterator[ContractChange]:
    def change(path: str, kind: ChangeKind, sentence: str) -> ContractChange:
        return ContractChange(name, path, kind, f"Tool '{name}': {sentence}")

    before, after = get_contract_fields(old), get_contract_fields(new)
    if encode_canonical_json({**before, "name": ""}) == encode_canonical_json({**after, "name": ""}):
        return
    found = [
        *_compare_texts(before, after, change),
        *_compare_inputs(before, after, used, change),
        *_compare_outputs(before, after, change),
        *_compare_annotations(before, after, change),
        *_compare_execution(before, after, change),
    ]
    yield from found or [change("", "review", "Definition changed in a way that has no known effect on calls")]


def _compare_texts(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    if before.get("title") != after.get("title"):
        yield change("/title", "non-breaking", "Title changed")
    had, has = before.get("description"), after.get("description")
    if had != has:
        yield change("/description", "review", f"Description changed{warn_of_invisible_characters(had, has)}")


def _compare_inputs(before: Tool, after: Tool, used: Collection[str] | None, change: Any) -> Iterator[ContractChange]:
    for finding in compare_schemas(before.get("inputSchema", {}), after.get("inputSchema", {}), "parameter"):
        kind = _INPUT_KINDS[finding.effect]
        if _is_unused(finding, used):
            kind = "non-breaking"
        yield change(f"/inputSchema{finding.pointer}", kind, finding.sentence)


def _is_unused(finding: SchemaDifference, used: Collection[str] | None) -> bool:
    """Whether an optional parameter was removed that the profile does not use."""
    whole = finding.effect == "lost" and finding.parameter != "" and not finding.required
    return whole and used is not None and finding.parameter not in used


def _compare_outputs(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = before.get("outputSchema"), after.get("outputSchema")
    if old is None and new is None:
        return
    if old is None or new is None:
        kind: ChangeKind = "non-breaking" if old is None else "review"
        yield change("/outputSchema", kind, f"Output schema {'added' if old is None else 'removed'}")
        return
    for finding in compare_schemas(old, new, "output field"):
        yield change(f"/outputSchema{finding.pointer}", _OUTPUT_KINDS[finding.effect], finding.sentence)


def _compare_annotations(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = (_get_object(tool.get("annotations")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        had, has = old.get(key), new.get(key)
        if encode_canonical_json(had) == encode_canonical_json(has):
            continue
        place = f"/annotations/{key}"
        if key in HINT_DEFAULTS and (HINT_DEFAULTS[key] if had is None else had) == (
            HINT_DEFAULTS[key] if has is None else has
        ):
            yield change(
                place,
                "non-breaking",
                f"{key} is now {_format_value(has)}, which means the same as {_format_value(had)}",
            )
        elif key == "title":
            yield change(place, "non-breaking", "Title changed")
        else:
            yield change(place, "review", f"{key} changed from {_format_value(had)} to {_format_value(has)}")


def _compare_execution(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = (_get_object(tool.get("execution")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if encode_canonical_json(old.get(key)) != encode_canonical_json(new.get(key)):
            must = key == "taskSupport" and (new.get(key) == "required" or old.get(key) == "required")
            kind: ChangeKind = "breaking" if must else "review"
            yield change(
                f"/execution/{key}",
                kind,
                f"{key} changed from {_format_value(old.get(key))} to {_format_value(new.get(key))}",
            )


def _get_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _format_value(value: Any) -> str:
    return "not set" if value is None else encode_canonical_json(value).decode()[:60]


def _find_renamed_tools(gone: Mapping[str, Tool], added: Mapping[str, Tool]) -> dict[str, str]:
    """Match old tools with new ones: equal input, and a similar name or the same description."""
    rows = [
        (
            max(compute_name_similarity(old, new), compute_name_similarity(split_words(old), split_words(new)))
            + _score_descriptions(gone[old], added[new]),
            old,
            new,
        )
        for old in gone
        for new in added
        if _encode_without_texts(gone[old].get("inputSchema")) == _encode_without_texts(added[new].get("inputSchema"))
    ]
    return match_names(rows)


def _encode_without_texts(schema: Any) -> bytes:
    """Encode an input schema without its texts: the constraints on a call."""

    def bare(value: Any, names: bool = False) -> Any:
        if isinstance(value, list):
            return [bare(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {key: one for key, one in value.items() if names or key not in _TEXT_KEYWORDS}
        return {key: bare(one, not names and key in ("properties", "$defs")) for key, one in inner.items()}

    return encode_canonical_json(bare(schema))


def _score_descriptions(old: Tool, new: Tool) -> float:
    return 1.0 if old.get("description") and old.get("description") == new.get("description") else 0.0
