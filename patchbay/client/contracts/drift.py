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

from patchbay.client.contracts.canonical_json import ContractError, canonical_json
from patchbay.client.contracts.schema_drift import SchemaDifference, changes_between, hidden, name_similarity
from patchbay.client.suggestions import words_of

Tool = Mapping[str, Any]
Kind = Literal["breaking", "review", "non-breaking"]

FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")
"""The fields of a tool that make its contract. Icons and `_meta` change looks, often at every start."""

KINDS: tuple[Kind, ...] = ("breaking", "review", "non-breaking")
_HINTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""The annotations that say what a tool may do, and what each means when it is not there."""

_SAME_NAME = 0.6
_TEXTS = frozenset({"title", "description", "examples", "$comment", "$schema"})
_INPUT: Mapping[str, Kind] = {
    "narrower": "breaking",
    "wider": "non-breaking",
    "replaced": "breaking",
    "changed": "review",
    "lost": "breaking",
    "text": "review",
    "label": "non-breaking",
}
_OUTPUT: Mapping[str, Kind] = {
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
    kind: Kind
    sentence: str

    def to_json(self) -> dict[str, str]:
        """The change as a JSON object."""
        return asdict(self)


def by_name(tools: Sequence[Any]) -> dict[str, Tool]:
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


def contract_of(tool: Tool) -> dict[str, Any]:
    """The fields of a tool that make its contract; absent and null are the same."""
    return {key: tool[key] for key in FIELDS if tool.get(key) is not None}


def detect_schema_changes(
    old: Sequence[Tool], new: Sequence[Tool], used: Mapping[str, Collection[str]] | None = None
) -> list[ContractChange]:
    """Every change from the old tools to the new ones, breaking first, in order of the tools' names.

    `used` says which tools and which of their parameters matter (a profile's): what is not among them cannot break.
    None: everything may be in use. Raises ContractError for lists that are no lists of tools.
    """
    before, after = by_name(old), by_name(new)
    gone = sorted(before.keys() - after.keys())
    added = sorted(after.keys() - before.keys())
    renamed = _renamed({name: before[name] for name in gone}, {name: after[name] for name in added})
    found: list[ContractChange] = []
    for name in sorted(before.keys() | after.keys()):
        if name in renamed:
            found.append(ContractChange(name, "/name", "breaking", f"Tool '{name}': Renamed to '{renamed[name]}'"))
            found += _tool_changes(renamed[name], before[name], after[renamed[name]])
        elif name not in after:
            found.append(ContractChange(name, "", "breaking", f"Tool '{name}': Removed"))
        elif name in before:
            found += _tool_changes(name, before[name], after[name], None if used is None else used.get(name, ()))
        elif name not in renamed.values():
            found.append(ContractChange(name, "", "non-breaking", f"Tool '{name}': New tool added"))
    if used is not None:
        found = [_if_used(change, used) for change in found]
    return sorted(found, key=lambda change: KINDS.index(change.kind))


def gravest_change(changes: Sequence[ContractChange]) -> Kind | None:
    """The gravest kind among changes, None when there are none."""
    return next((kind for kind in KINDS if any(change.kind == kind for change in changes)), None)


def _if_used(change: ContractChange, used: Mapping[str, Collection[str]]) -> ContractChange:
    if change.kind != "breaking" or change.tool in used:
        return change
    return ContractChange(change.tool, change.path, "non-breaking", f"{change.sentence} (not used by the profile)")


def _tool_changes(name: str, old: Tool, new: Tool, used: Collection[str] | None = None) -> Iterator[ContractChange]:
    def change(path: str, kind: Kind, sentence: str) -> ContractChange:
        return ContractChange(name, path, kind, f"Tool '{name}': {sentence}")

    before, after = contract_of(old), contract_of(new)
    if canonical_json({**before, "name": ""}) == canonical_json({**after, "name": ""}):
        return
    found = [
        *_texts(before, after, change),
        *_inputs(before, after, used, change),
        *_outputs(before, after, change),
        *_annotations(before, after, change),
        *_execution(before, after, change),
    ]
    yield from found or [change("", "review", "Definition changed in a way that has no known effect on calls")]


def _texts(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    if before.get("title") != after.get("title"):
        yield change("/title", "non-breaking", "Title changed")
    had, has = before.get("description"), after.get("description")
    if had != has:
        yield change("/description", "review", f"Description changed{hidden(had, has)}")


def _inputs(before: Tool, after: Tool, used: Collection[str] | None, change: Any) -> Iterator[ContractChange]:
    for finding in changes_between(before.get("inputSchema", {}), after.get("inputSchema", {}), "parameter"):
        kind = _INPUT[finding.effect]
        if _unused(finding, used):
            kind = "non-breaking"
        yield change(f"/inputSchema{finding.pointer}", kind, finding.sentence)


def _unused(finding: SchemaDifference, used: Collection[str] | None) -> bool:
    """JN-45: an optional parameter that goes away breaks nothing for a profile that does not use it."""
    whole = finding.effect == "lost" and finding.parameter != "" and not finding.required
    return whole and used is not None and finding.parameter not in used


def _outputs(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = before.get("outputSchema"), after.get("outputSchema")
    if old is None and new is None:
        return
    if old is None or new is None:
        kind: Kind = "non-breaking" if old is None else "review"
        yield change("/outputSchema", kind, f"Output schema {'added' if old is None else 'removed'}")
        return
    for finding in changes_between(old, new, "output field"):
        yield change(f"/outputSchema{finding.pointer}", _OUTPUT[finding.effect], finding.sentence)


def _annotations(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = (_object(tool.get("annotations")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        had, has = old.get(key), new.get(key)
        if canonical_json(had) == canonical_json(has):
            continue
        place = f"/annotations/{key}"
        if key in _HINTS and (_HINTS[key] if had is None else had) == (_HINTS[key] if has is None else has):
            yield change(place, "non-breaking", f"{key} is now {_said(has)}, which means the same as {_said(had)}")
        elif key == "title":
            yield change(place, "non-breaking", "Title changed")
        else:
            yield change(place, "review", f"{key} changed from {_said(had)} to {_said(has)}")


def _execution(before: Tool, after: Tool, change: Any) -> Iterator[ContractChange]:
    old, new = (_object(tool.get("execution")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if canonical_json(old.get(key)) != canonical_json(new.get(key)):
            must = key == "taskSupport" and (new.get(key) == "required" or old.get(key) == "required")
            kind: Kind = "breaking" if must else "review"
            yield change(
                f"/execution/{key}", kind, f"{key} changed from {_said(old.get(key))} to {_said(new.get(key))}"
            )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(value: Any) -> str:
    return "not said" if value is None else canonical_json(value).decode()[:60]


def _renamed(gone: Mapping[str, Tool], added: Mapping[str, Tool]) -> dict[str, str]:
    """Old tool to new tool, where the input is the same and the name or the description says it is the same one."""
    rows = [
        (
            max(name_similarity(old, new), name_similarity(words_of(old), words_of(new)))
            + _same_words(gone[old], added[new]),
            old,
            new,
        )
        for old in gone
        for new in added
        if _demands(gone[old].get("inputSchema")) == _demands(added[new].get("inputSchema"))
    ]
    found: dict[str, str] = {}
    for score, old, new in sorted(rows, key=lambda row: -row[0]):
        if score >= _SAME_NAME and old not in found and new not in found.values():
            found[old] = new
    return found


def _demands(schema: Any) -> bytes:
    """An input schema without its texts: what a call has to be."""

    def bare(value: Any, names: bool = False) -> Any:
        if isinstance(value, list):
            return [bare(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {key: one for key, one in value.items() if names or key not in _TEXTS}
        return {key: bare(one, not names and key in ("properties", "$defs")) for key, one in inner.items()}

    return canonical_json(bare(schema))


def _same_words(old: Tool, new: Tool) -> float:
    return 1.0 if old.get("description") and old.get("description") == new.get("description") else 0.0
