"""Contracts: the tools that a profile, a mount or a call expects of a server, and whether the server still has them.

Four values, each for one purpose:
    tool digest   SHA-256 over canonical JSON of name, description, inputSchema, outputSchema (SEP-1766), to compare
                  with other systems
    contract CID  the CID of the stored snapshot of all tools, for `schema=<cid>` in an address and later comparison
    schema_hash   SHA-256 over names, required parameters and types of parameters only
    MD5           JN's own `schema_hash`, for JN's profiles; recognized by its length

All functions take plain lists of tool dicts. Nothing here asks a server or opens a store: the caller passes the blobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from patchbay.cid import canonical, cid_of
from patchbay.client.contracts.canonical_json import ContractError, encode_canonical_json
from patchbay.client.contracts.drift import (
    ContractChange,
    Tool,
    detect_schema_changes,
    find_gravest_kind,
    get_contract_fields,
    index_tools,
)
from patchbay.client.contracts.schema_types import (
    collect_properties,
    collect_required,
)
from patchbay.client.contracts.type_tokens import make_type_token
from patchbay.client.profiles.layouts import Profile
from patchbay.errors import ParseError, PatchbayError
from patchbay.jsonrpc import parse
from patchbay.store import Blobs

Algorithm = Literal["sha256", "md5"]
Status = Literal["valid", "changed", "unknown", "error"]

DIGESTED_FIELDS = ("name", "description", "inputSchema", "outputSchema")
ALGORITHM_BY_LENGTH: Mapping[int, Algorithm] = {32: "md5", 64: "sha256"}
MAX_SHOWN_CHANGES = 6
"""Changes in the warning of one call."""


def compute_tool_digest(tool: Tool) -> str:
    """Compute the digest of one tool as in SEP-1766, 64 hexadecimal digits; absent and null fields are left out.

    Raises ContractError for a tool without a name or with a value that JSON does not have.
    """
    index_tools([tool])
    return hashlib.sha256(
        encode_canonical_json({key: tool[key] for key in DIGESTED_FIELDS if tool.get(key) is not None})
    ).hexdigest()


def make_snapshot(tools: Sequence[Tool]) -> bytes:
    """Encode the contract of all tools as canonical JSON, sorted by name. Raises ContractError."""
    found = index_tools(tools)
    return encode_canonical_json({"tools": [get_contract_fields(found[name]) for name in sorted(found)]})


def compute_contract_cid(tools: Sequence[Tool]) -> str:
    """Compute the CID of the tools' snapshot, without storing it."""
    return cid_of(make_snapshot(tools))


def store_snapshot(tools: Sequence[Tool], blobs: Blobs) -> str:
    """Store the snapshot of some tools, and return its CID."""
    return blobs.put(make_snapshot(tools))


def load_snapshot(cid: str, blobs: Blobs) -> list[dict[str, Any]]:
    """Load the tools of a stored snapshot. Raises BadCid, MissingBlob, CorruptBlob; ContractError for other content."""
    try:
        value = parse(blobs.get(cid))
    except ParseError as problem:
        raise ContractError(f"{cid} is not a contract; {problem.message}") from problem
    tools = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(tools, list):
        raise ContractError(f'{cid} is not a contract; expected an object with a list of "tools"')
    return list(index_tools(tools).values())  # type: ignore[arg-type]


def compute_schema_hash(
    tools: Sequence[Tool], recorded: Mapping[str, Mapping[str, Any]] | None = None, algorithm: Algorithm = "sha256"
) -> str:
    """Compute the hash of names, required parameters and types, in hexadecimal.

    With `recorded` (the tools of a profile, by name) only those tools and their parameters count, and of each the full
    list of required parameters. Optional additions and descriptions do not change the hash; removed, retyped and newly
    required parameters do. Raises ContractError.
    """
    found = index_tools(tools)
    names = sorted(found if recorded is None else found.keys() & recorded.keys())
    lines = [_make_signature(found[name], None if recorded is None else recorded[name], algorithm) for name in names]
    text = "\n".join(lines).encode()
    return (hashlib.md5(text, usedforsecurity=False) if algorithm == "md5" else hashlib.sha256(text)).hexdigest()


def compute_profile_hash(tools: Sequence[Tool], profile: Profile | None) -> str:
    """Compute the `schema_hash` that a profile holds while its contract is unchanged: over the tools that it records.

    Without a profile, or with one that records no tools, all tools count. Raises ContractError.
    """
    return compute_schema_hash(tools, profile.tools or None if profile is not None else None)


def calculate_schema_hash(tools: Sequence[Tool]) -> str:
    """Compute JN's MD5 of all tools: the `schema_hash` in its profiles."""
    return compute_schema_hash(tools, algorithm="md5")


def _make_signature(tool: Tool, recorded: Mapping[str, Any] | None, algorithm: Algorithm) -> str:
    schema = tool.get("inputSchema")
    properties = collect_properties(schema, schema)
    if recorded is not None:
        known = collect_properties(recorded.get("inputSchema"), recorded.get("inputSchema"))
        properties = {name: one for name, one in properties.items() if name in known}
    simple = algorithm == "md5"
    types = {name: make_type_token(one, schema, simple) for name, one in properties.items()}
    signature = {"name": tool["name"], "required": collect_required(schema, schema), "types": types}
    # JN computes its MD5 over the text of `json.dumps`.
    return json.dumps(signature, sort_keys=True) if simple else encode_canonical_json(signature).decode()


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of comparing a server with a contract.

    `valid`: the contract holds. `changed`: it does not, `changes` say why. `unknown`: no contract was expected.
    `error`: the comparison failed, `message` says why. `expected` is the expected hash or CID, `current_hash` the
    present one.
    """

    status: Status
    message: str
    changes: tuple[ContractChange, ...] = ()
    current_hash: str = ""
    expected: str | None = None

    def sort_for_tool(self, tool: str) -> ValidationResult:
        """Sort the changes: those that break the tool, then those that break others, then the rest."""
        changes = sorted(self.changes, key=lambda one: (one.kind != "breaking", one.tool != tool))
        return replace(self, changes=tuple(changes))

    @property
    def is_breaking(self) -> bool:
        """Whether a call that worked before fails now."""
        return find_gravest_kind(self.changes) == "breaking"

    def to_json(self) -> dict[str, Any]:
        """Convert the result to a JSON object."""
        return {
            "status": self.status,
            "message": self.message,
            "changes": [change.to_json() for change in self.changes],
            "current_hash": self.current_hash,
            "expected": self.expected,
        }


def validate(profile: Profile, tools: Sequence[Tool], blobs: Blobs | None = None) -> ValidationResult:
    """Compare a server's tools with the contract of a profile. Raises nothing.

    With `blobs` changes are found against the snapshot that the profile names, else against the tools that it records.
    """
    expected = profile.schema_hash
    try:
        if expected is None:
            return _validate_without_hash(profile, tools, blobs)
        algorithm = ALGORITHM_BY_LENGTH.get(len(expected))
        if algorithm is None or set(expected) - set("0123456789abcdef"):
            message = f"schema_hash: expected 32 (MD5) or 64 (SHA-256) hexadecimal digits, got {expected[:80]!r}"
            return ValidationResult("error", message, (), compute_schema_hash(tools), expected)
        projected = compute_schema_hash(tools, profile.tools or None, algorithm)
        whole = compute_schema_hash(tools, None, algorithm)
        exact = _load_profile_snapshot(profile, blobs)
        changes = tuple(
            _find_recorded_changes(profile, tools) if exact is None else _find_exact_changes(profile, exact, tools)
        )
        same = expected in (projected, whole)
        if same and (exact is None or find_gravest_kind(changes) != "breaking"):
            return ValidationResult("valid", "The contract holds", () if exact is None else changes, expected, expected)
        return ValidationResult("changed", CHANGED_MESSAGE, changes or (UNRECORDED_CHANGE,), projected, expected)
    except PatchbayError as problem:
        return ValidationResult("error", problem.message, (), "", expected)


CHANGED_MESSAGE = "MCP schema has changed since profile was created"
UNKNOWN_MESSAGE = "Profile has no schema hash"


def _validate_without_hash(profile: Profile, tools: Sequence[Tool], blobs: Blobs | None) -> ValidationResult:
    if profile.schema_cid is not None and blobs is not None:
        return check_pin(profile.schema_cid, tools, blobs)
    return ValidationResult("unknown", UNKNOWN_MESSAGE, (), compute_schema_hash(tools), None)


UNRECORDED_CHANGE = ContractChange(
    "", "", "review", "The hash differs, and nothing that the profile records has changed"
)
_RECORDED_KEYWORDS = ("type", "enum", "required", "name", "")
"""The last words of the paths that a recorded contract covers; whole parameters beside them."""


def _load_profile_snapshot(profile: Profile, blobs: Blobs | None) -> list[dict[str, Any]] | None:
    cid = profile.schema_cid
    return load_snapshot(cid, blobs) if cid is not None and blobs is not None and not blobs.missing([cid]) else None


def _find_exact_changes(profile: Profile, old: Sequence[Tool], tools: Sequence[Tool]) -> list[ContractChange]:
    return detect_schema_changes(old, tools, list_used_parameters(profile) or None)


def _find_recorded_changes(profile: Profile, tools: Sequence[Tool]) -> list[ContractChange]:
    """Find changes of the tools, parameters and types that a profile records. Its texts may be the author's own."""
    found = detect_schema_changes(list_recorded_tools(profile, tools), tools, list_used_parameters(profile))
    return [change for change in found if change.tool in profile.tools and _is_recorded(change.path)]


def _is_recorded(path: str) -> bool:
    words = path.split("/")
    return words[-1] in _RECORDED_KEYWORDS or words[-2:-1] == ["properties"]


def list_recorded_tools(profile: Profile, tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """List the tools that a profile records, as descriptors; missing fields are those of the present tool."""
    present = index_tools(tools)
    found = []
    for name, tool in profile.tools.items():
        now = get_contract_fields(present.get(name, {}))
        own = {key: tool[key] for key in ("description", "inputSchema", "outputSchema", "annotations") if key in tool}
        if "inputSchema" in own:
            own["inputSchema"] = _fill_types(own["inputSchema"], now.get("inputSchema"))
        found.append({**now, **own, "name": name})
    return found


def _fill_types(recorded: Any, present: Any) -> Any:
    """Give parameters without a recorded type their present schema."""
    now = collect_properties(present, present)
    mine = recorded.get("properties", {}) if isinstance(recorded, dict) else {}
    if not isinstance(mine, dict):
        return recorded
    filled = {key: now.get(key, one) if make_type_token(one, recorded) == "any" else one for key, one in mine.items()}
    beside = {key: present[key] for key in ("$defs", "definitions") if isinstance(present, dict) and key in present}
    return {**beside, **recorded, "properties": filled}


def list_used_parameters(profile: Profile) -> dict[str, set[str]]:
    """List the tools of a profile and the parameters that it records, tested or has examples of."""
    used: dict[str, set[str]] = {}
    for name, tool in profile.tools.items():
        used[name] = set(collect_properties(tool.get("inputSchema"), tool.get("inputSchema")))
        for example in tool.get("examples", ()):
            given = example.get("input") if isinstance(example, dict) else None
            used[name] |= set(given) if isinstance(given, dict) else set()
    return used


def check_pin(cid: str, tools: Sequence[Tool], blobs: Blobs | None, tool: str = "") -> ValidationResult:
    """Compare a server's tools with a stored snapshot, exactly (a call with `schema=<cid>`). Raises nothing.

    With `tool` only that tool counts. Any difference is `changed`; `changes` say whether it breaks calls. A snapshot
    that is not stored here holds when the present tools have its CID.
    """
    try:
        now = compute_contract_cid(tools)
        if now == canonical(cid) and (not tool or tool in index_tools(tools)):
            return ValidationResult("valid", "The contract holds", (), now, cid)
        if blobs is None or blobs.missing([cid]):
            known = "; it is not stored here, so the changes cannot be named (profile create --pin stores one)"
            return ValidationResult("changed", f"The contract is not the one of {cid}{known}", (), now, cid)
        old = load_snapshot(cid, blobs)
        new = [one for one in tools if one["name"] == tool] if tool else list(tools)
        old = [one for one in old if one["name"] == tool] if tool else old
        if tool and not old:
            return ValidationResult("error", f"the contract {cid} has no tool {tool!r}", (), now, cid)
        changes = tuple(detect_schema_changes(old, new))
    except PatchbayError as problem:
        return ValidationResult("error", problem.message, (), "", cid)
    if changes:
        return ValidationResult("changed", f"The contract is not the one of {cid}", changes, now, cid)
    return ValidationResult("valid", "The contract holds", (), now, cid)


Reaction = Literal["go", "warn", "refuse"]


def choose_reaction(result: ValidationResult, validation: str, ignored: bool = False) -> Reaction:
    """Choose the reaction to a result. `validation` is the profile's `warn`, `error` or `ignore`; `ignored` is the
    option.

    Only a contract that changed or could not be checked causes a warning or a refusal.
    """
    if ignored or validation == "ignore" or result.status in ("valid", "unknown"):
        return "go"
    return "refuse" if validation == "error" else "warn"


def format_warning(name: str, result: ValidationResult, command: str, program: str = "jn") -> str:
    """Format the warning about a changed contract: the changes, both hashes, three options.

    `command` is the typed command.
    """
    lines = ["Warning: MCP server schema has changed since profile was created.", "", "Changes detected:"]
    lines += [f"  - {change.sentence}" for change in result.changes[:MAX_SHOWN_CHANGES]]
    rest = len(result.changes) - MAX_SHOWN_CHANGES
    lines += [f"  and {rest} more, which '{program} profile validate {name}' shows"] if rest > 0 else []
    lines += [
        "",
        f"Profile hash: {_shorten_hash(result.expected or '')}",
        f"Current hash: {_shorten_hash(result.current_hash)}",
        "",
    ]
    lines += [
        "Options:",
        f"  1. Update profile: {program} profile update {name}",
        f"  2. Explore changes: {program} mcp explore {name}",
        f"  3. Ignore (may cause errors): {command} --ignore-schema",
    ]
    return "\n".join(lines)


def _shorten_hash(value: str) -> str:
    return f"{value[:8]}..."


def check_output_format(tool: str, expected: Any, types: Collection[str]) -> str | None:
    """Return a warning when the media types of a result are not the profile's `output_format`, else None."""
    other = sorted({one for one in types if _strip_parameters(one) != _strip_parameters(str(expected))})
    if not expected or not other:
        return None
    return f"Tool '{tool}': Output is {', '.join(other)}; the profile expects {expected}"


def _strip_parameters(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()
