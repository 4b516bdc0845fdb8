"""The drift drill: a server whose tools change between two calls, in each way of JN-45; verdicts, exit codes, texts."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.workspace import COUNT, SEARCH, Workspace, launch

pytestmark = pytest.mark.process

Json = dict[str, Any]
GENE = {"type": "string", "description": "Gene symbol (e.g., BRAF, TP53)"}
DISEASE = {"type": "string", "description": "Disease or condition name"}


def search(properties: Json | None = None, required: tuple[str, ...] = ("gene",), **fields: Any) -> Json:
    """The tool `search` as it is after a change."""
    schema = {"type": "object", "properties": properties or {"gene": GENE, "disease": DISEASE}, "required": [*required]}
    return {**copy.deepcopy(SEARCH), "inputSchema": schema, **fields}


OLD = search(outputSchema={"type": "object", "properties": {"text": {"type": "string"}}})
OUTPUT = {"type": "object", "properties": {"text": {"type": "integer"}}}

WAYS: dict[str, tuple[Json | None, str, str]] = {
    "required added": (
        search({"gene": GENE, "disease": DISEASE, "phase": {"type": "integer"}}, ("gene", "phase")),
        "breaking",
        "New required parameter 'phase' added",
    ),
    "required removed": (search({"disease": DISEASE}, ()), "breaking", "Required parameter 'gene' removed"),
    "required renamed": (
        search({"query": GENE, "disease": DISEASE}, ("query",)),
        "breaking",
        "Required parameter 'gene' renamed to 'query'",
    ),
    "now required": (search(required=("gene", "disease")), "breaking", "Parameter 'disease' is now required"),
    "type changed": (
        search({"gene": {**GENE, "type": "integer"}, "disease": DISEASE}),
        "breaking",
        "Type of parameter 'gene' changed from string to integer",
    ),
    "tool removed": (None, "breaking", "Removed"),
    "optional added": (
        search({"gene": GENE, "disease": DISEASE, "filters": {"type": "object"}}),
        "non-breaking",
        "New optional parameter 'filters' added",
    ),
    "description changed": (search(description="Search, and mail what was found"), "review", "Description changed"),
    "parameter description changed": (
        search({"gene": {**GENE, "description": "A gene"}, "disease": DISEASE}),
        "review",
        "Description of parameter 'gene' changed",
    ),
    "output changed": (
        search(outputSchema=OUTPUT),
        "review",
        "Type of output field 'text' changed from string to integer",
    ),
    "nothing": (OLD, "", ""),
}


@pytest.fixture
def address(workspace: Workspace) -> str:
    """The server as it was when its profile was made, with its snapshot in the store."""
    address = workspace.serve(OLD, COUNT)
    assert workspace.quick(f"jn profile new mcp biomcp '{address}' --tool search").code == exit_codes.OK
    assert workspace.quick("jn cat '@biomcp/search?gene=BRAF'").err == ""
    return address


def changed(workspace: Workspace, way: str) -> tuple[str, str]:
    """Change the server; answers the verdict and the sentence that are expected."""
    tool, kind, sentence = WAYS[way]
    after = {} if tool is None or "outputSchema" in tool else {"outputSchema": OLD["outputSchema"]}
    workspace.serve(*([{**tool, **after}] if tool is not None else []), COUNT)
    return kind, sentence


@pytest.mark.parametrize("way", WAYS)
def test_each_change_has_its_verdict_and_its_sentence(workspace: Workspace, address: str, way: str) -> None:
    """JN-45, JN-56, JN-60: what `profile diff` and `profile validate` say, with which exit code."""
    kind, sentence = changed(workspace, way)
    diff = workspace.quick("jn profile diff @biomcp --format json")
    changes = json.loads(diff.out)
    assert [(one["kind"], sentence in one["sentence"]) for one in changes[:1]] == ([(kind, True)] if kind else []), (
        changes
    )
    breaking = kind == "breaking"
    validated = workspace.quick("jn profile validate @biomcp --format json")
    assert json.loads(validated.out)["status"] == ("changed" if breaking else "valid")
    assert diff.code == validated.code == (exit_codes.CHANGED if breaking else exit_codes.OK)


@pytest.mark.parametrize("way", [way for way, row in WAYS.items() if row[1] == "breaking"])
def test_a_breaking_change_is_warned_of_once_and_the_call_goes_on(workspace: Workspace, address: str, way: str) -> None:
    """JN-44, JN-46, JN-48: the text with changes, both hashes and three options; once for all records."""
    _, sentence = changed(workspace, way)
    told = workspace.quick("jn put --era legacy '@biomcp/search'", '{"gene": "BRAF"}\n{"gene": "TP53"}\n')
    lines = told.err.splitlines()
    assert lines[0] == "Warning: MCP server schema has changed since profile was created."
    assert next(line for line in lines if line.startswith("  - ")).endswith(sentence)
    assert told.err.count("Warning:") == 1
    assert [line.partition(":")[0] for line in lines if " hash: " in line] == ["Profile hash", "Current hash"]
    assert len(told.records) == 2


def test_the_warning_is_that_of_the_document(workspace: Workspace, address: str) -> None:
    """JN-46: word for word, with the command as it was typed."""
    workspace.serve(
        search(
            {"query": GENE, "disease": DISEASE, "filters": {"type": "object"}},
            ("query",),
            outputSchema=OLD["outputSchema"],
        ),
        COUNT,
    )
    lines = workspace.quick('jn cat "@biomcp/search?gene=BRAF"').err.splitlines()
    hashes = [line[14:22] for line in lines if " hash: " in line]
    assert hashes[0] != hashes[1]
    assert lines == [
        "Warning: MCP server schema has changed since profile was created.",
        "",
        "Changes detected:",
        "  - Tool 'search': Required parameter 'gene' renamed to 'query'",
        "  - Tool 'search': New optional parameter 'filters' added",
        "",
        f"Profile hash: {hashes[0]}...",
        f"Current hash: {hashes[1]}...",
        "",
        "Options:",
        "  1. Update profile: jn profile update biomcp",
        "  2. Explore changes: jn mcp explore biomcp",
        '  3. Ignore (may cause errors): jn cat "@biomcp/search?gene=BRAF" --ignore-schema',
        "",
    ]
    for line in ("jn mcp explore biomcp", 'jn cat "@biomcp/search?gene=BRAF" --ignore-schema'):
        told = workspace.quick(line)
        assert (told.code, told.err) == (exit_codes.OK, ""), line


@pytest.mark.parametrize(
    ("mode", "code", "warned"), [("warn", 0, True), ("error", exit_codes.CHANGED, True), ("ignore", 0, False)]
)
def test_a_profile_says_what_is_done_about_a_change(workspace: Workspace, mode: str, code: int, warned: bool) -> None:
    """JN-47, JN-48: warn, refuse without a call, or skip; --ignore-schema beats all of them."""
    meta = launch(workspace.serve(OLD))
    assert (
        workspace.quick(
            "jn profile create biomcp --pin", json.dumps({**meta, "schema_validation": mode, "tools": {}})
        ).code
        == 0
    )
    workspace.serve(search(required=("gene", "disease")))
    told = workspace.quick("jn cat '@biomcp?tool=search&gene=BRAF'")
    assert (told.code, "Warning: " in told.err) == (code, warned)
    assert any(line.startswith("call") for line in workspace.log()) == (mode != "error")
    told = workspace.quick("jn cat --ignore-schema '@biomcp?tool=search&gene=BRAF'")
    assert (told.code, told.err) == (exit_codes.OK, "")


def test_a_profile_of_the_document_keeps_working(workspace: Workspace) -> None:
    """JN-41, JN-51, 34.19: its MD5 holds for the server it was made of, and no longer for the next one.

    Every command prints the SHA-256, which is what a new profile holds.
    """
    address = workspace.serve(OLD, COUNT)
    md5 = workspace.quick(f"jn mcp hash '{address}' --kind md5").out.strip()
    assert len(md5) == 32
    workspace.profile("biomcp", {"connection": launch(address), "schema_hash": md5, "plugin": "mcp"})
    assert workspace.quick("jn profile validate @biomcp").out.startswith("@biomcp: valid")
    printed = {
        workspace.quick(f"jn {command}").out.strip() for command in (f"mcp hash '{address}'", "profile version @biomcp")
    }
    explored = json.loads(workspace.quick(f"jn profile explore '{address}'").out)["version_hash"]
    workspace.quick(f"jn profile new mcp fresh '{address}'")
    version = workspace.quick("jn profile version @fresh").out.strip()
    assert printed == {explored} == {version} and len(explored) == 64
    workspace.serve(search(required=("gene", "disease")), COUNT)
    assert workspace.quick("jn profile validate @biomcp").code == exit_codes.CHANGED


def test_a_pinned_call_is_refused_when_anything_differs(workspace: Workspace, address: str) -> None:
    """X-21: schema=<cid> holds to the letter, with the differences in the sentence; nothing is called."""
    cid = workspace.quick("jn mcp hash @biomcp --kind cid").out.strip()
    line = f"jn cat '@biomcp/search?gene=BRAF&schema={cid}'"
    assert workspace.quick(line).code == exit_codes.OK
    calls = len(workspace.log())
    workspace.serve(search(description="Search, and mail it", outputSchema=OLD["outputSchema"]), COUNT)
    told = workspace.quick(line)
    assert told.code == exit_codes.CHANGED
    assert "review: Tool 'search': Description changed" in told.err
    assert not any(entry.startswith("call") for entry in workspace.log()[calls:])


def test_another_kind_of_output_is_warned_of(workspace: Workspace) -> None:
    """JN-50: the profile says what comes out, and something else does."""
    address = workspace.serve(OLD, text="words")
    workspace.profile("biomcp", launch(address), search={"output_format": "application/json"})
    told = workspace.quick("jn cat '@biomcp/search?gene=BRAF'")
    assert "Output is text/plain; the profile expects application/json" in told.err
    assert told.code == exit_codes.OK
