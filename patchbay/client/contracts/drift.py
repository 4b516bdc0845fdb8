"""What changed between two lists of tools, and whether it matters: breaking, non-breaking, or to be reviewed.

Rules: a call that worked and no longer does is breaking (a tool or a used parameter gone or renamed, a parameter newly
required, less accepted). What accepts more is non-breaking. What changes without breaking a call, but may change what
is done or what a model believes, is review: descriptions, defaults, annotations, output. Two lists are without changes
exactly when their tools have equal contract fields. Takes plain lists of tool dicts as `tools/list` answers them.
Sources: JN-45, JN-C1, JN-C2; THREATS (tool poisoning).
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
    warn_of_invisible_characters,
)
from patchbay.client.suggestions import split_words

Tool = Mapping[str, Any]
ChangeKind = Literal["breaking", "review", "non-breaking"]

CONTRACT_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")
"""The fields of a tool that make its contract. Icons and `_meta` change looks, often at every start."""

CHANGE_KINDS: tuple[ChangeKind, ...] = ("breaking", "review", "non-breaking")
_HINT_DEFAULTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""The annotations that say what a tool may do, and what each means when it is not there."""

_MIN_NAME_SIMILARITY = 0.6
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
    """One change of one tool: where (a JSON pointer into the tool), what it means, and a sentence for people."""

    tool: str
    path: str
    kind: ChangeKind
    sentence: str

    def to_json(self) -> dict[str, str]:
        """The change as a JSON object."""
        return asdict(self)


def index_tools(tools: Sequence[Any]) -> dict[str, Tool]:
    """Tools by their names. Raises ContractError for one without a name, or two of one name."""
    found: dict[str, Tool] = {}
    for number, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ContractError(f"tool {number + 1} of {len(tools)}: expected an object with a name")
        if name in found:
            raise ContractError(f"the tool {name!r} stands twice; expected each name once")
        found[name] = tool
    return found


def get_contract_fields(tool: Tool) -> dict[str, Any]:
    """The fields of a tool that make its contract; absent and null are the same."""
    return {key: tool[key] for key in CONTRACT_FIELDS if tool.get(key) is not None}


def detect_schema_changes(
    old: Sequence[Tool], new: Sequence[Tool], used: Mapping[str, Collection[str]] | None = None
) -> list[ContractChange]:
    """Every change from the old tools to the new ones, breaking first, in order of the tools' names.

    `used` says which tools and which of their parameters matter (a profile's): what is not among them cannot break.
    None: everything may be in use. Raises ContractError for lists that are no lists of tools.
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
    """The gravest kind among changes, None when there are none."""
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
    """JN-45: an optional parameter that goes away breaks nothing for a profile that does not use it."""
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
        if key in _HINT_DEFAULTS and (_HINT_DEFAULTS[key] if had is None else had) == (
            _HINT_DEFAULTS[key] if has is None else has
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
    return "not said" if value is None else encode_canonical_json(value).decode()[:60]


def _find_renamed_tools(gone: Mapping[str, Tool], added: Mapping[str, Tool]) -> dict[str, str]:
    """Old tool to new tool, where the input is the same and the name or the description says it is the same one."""
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
    found: dict[str, str] = {}
    for score, old, new in sorted(rows, key=lambda row: -row[0]):
        if score >= _MIN_NAME_SIMILARITY and old not in found and new not in found.values():
            found[old] = new
    return found


def _encode_without_texts(schema: Any) -> bytes:
    """An input schema without its texts: what a call has to be."""

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
