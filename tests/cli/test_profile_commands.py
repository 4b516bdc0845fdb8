"""`profile ...` and `mcp ...`: profiles made, looked at, brought up to date, against a server that changes."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from patchbay import exit_codes
from patchbay.client.profiles import files
from tests.cli.workspace import COUNT, SEARCH, Json, Workspace, launch

pytestmark = pytest.mark.process

RENAMED: Json = {
    **SEARCH,
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": SEARCH["inputSchema"]["properties"]["gene"],  # type: ignore[index]
            "disease": SEARCH["inputSchema"]["properties"]["disease"],  # type: ignore[index]
            "filters": {"type": "object"},
        },
        "required": ["query"],
    },
}
NOTED: Json = {
    "parameters": {"gene": {"type": "string", "required": True}, "disease": {"type": "string"}},
    "output_format": "text/plain",
    "notes": "Returns prose, not JSON",
    "examples": [{"input": {"gene": "BRAF"}, "output_sample": "..."}],
}


def written(workspace: Workspace, name: str = "biomcp") -> Json:
    """The files of a profile of the user."""
    directory = workspace.home / ".local" / "jn" / "profiles" / "mcp" / name
    return {path.stem: json.loads(path.read_text()) for path in directory.glob("*.json")}


def created(workspace: Workspace, **fields: object) -> None:
    """The profile of the document, made of a JSON document on standard input, pinned to the server as it is."""
    address = workspace.serve(SEARCH, COUNT)
    whole = {"plugin": "mcp", "server": "biomcp", "connection": launch(address), "tools": {"search": NOTED}}
    document = {**whole, "tested_with": ["search?gene=BRAF"], **fields}
    assert workspace.quick("jn profile create biomcp --pin --examples", json.dumps(document)).code == exit_codes.OK


def test_create_writes_one_form_into_the_users_directory(workspace: Workspace) -> None:
    """JN-58, JN-49, JN-51: _meta.json and one file per tool, strict JSON, the contract that is expected."""
    created(workspace)
    files = written(workspace)
    assert set(files) == {"_meta", "search"}
    assert len(files["_meta"]["schema_hash"]) == 64
    assert files["_meta"]["schema_cid"].startswith("bafkrei")
    assert files["search"]["inputSchema"]["required"] == ["gene"]
    assert workspace.quick("jn profile validate biomcp").out == "@biomcp: valid: The contract holds\n"


def test_the_recorded_hash_is_what_the_commands_print(workspace: Workspace) -> None:
    """JN-49, JN-57, 50.20: of a profile that records one of two tools."""
    created(workspace)
    expected = written(workspace)["_meta"]["schema_hash"]
    assert workspace.quick("jn profile version @biomcp").out.strip() == expected
    assert workspace.quick("jn mcp hash @biomcp").out.strip() == expected
    assert workspace.quick("jn mcp hash @biomcp --kind sha256").out.strip() == expected
    assert json.loads(workspace.quick("jn profile explore @biomcp").out)["version_hash"] == expected


@pytest.mark.parametrize("text", ["", "[]", "{// comment\n}", '{"plugin": "no-such-plugin"}', '{"command": 5}'])
def test_create_refuses_an_invalid_profile(workspace: Workspace, text: str) -> None:
    """JN-C7: one sentence, nothing written."""
    ended = workspace.quick("jn profile create biomcp", text)
    assert ended.code == exit_codes.USAGE
    assert ended.err.count("\n") == 1
    assert not written(workspace)


def test_new_makes_a_profile_of_a_running_server(workspace: Workspace) -> None:
    """JN-72, JN-51: a full profile, one with some tools, and a minimal one for which nothing is asked."""
    address = workspace.serve(SEARCH, COUNT)
    for line in (f"full '{address}'", f"some '{address}' --tool search", "bare mcp+node://./no-such.js --minimal"):
        assert workspace.quick(f"jn profile new mcp {line}").code == exit_codes.OK
    assert set(written(workspace, "full")) == {"_meta", "search", "count"}
    assert set(written(workspace, "some")) == {"_meta", "search"}
    assert written(workspace, "bare")["_meta"]["args"] == ["./no-such.js"]
    assert workspace.quick(f"jn profile new mcp x '{address}' --tool nope").code == exit_codes.USAGE
    assert workspace.quick("jn cat @full/count?n=3").records[0]["text"] == '{"n": 3}'


def test_a_profile_of_a_program_with_a_relative_path_works_from_another_folder(workspace: Workspace) -> None:
    """33.7: the program starts in the folder where the profile was made. A program of the PATH starts anywhere."""
    address = workspace.serve(SEARCH, COUNT).replace(f"{workspace.work}/", "./")
    made = workspace.quick(f"jn profile new mcp near '{address}'")
    assert made.code == exit_codes.OK, made.err
    assert written(workspace, "near")["_meta"]["cwd"] == str(workspace.work)
    assert workspace.quick("jn cat @near/count?n=3", folder=workspace.home).records[0]["text"] == '{"n": 3}'
    assert workspace.quick("jn profile new mcp far mcp+uvx://mcp-server-time/mcp-server-time --minimal").code == 0
    assert "cwd" not in written(workspace, "far")["_meta"]


def test_a_profile_that_cannot_be_written_leaves_no_file(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """33.7: the disk is full after the first file."""
    address = workspace.serve(SEARCH, COUNT)
    real, full = files.replace_file, OSError(errno.ENOSPC, "No space left on device")

    def replace_some(path: Path, data: bytes, mode: int = 0o600) -> None:
        if path.name == "_meta.json":
            raise full
        real(path, data, mode)

    monkeypatch.setattr(files, "replace_file", replace_some)
    ended = workspace.quick(f"jn profile new mcp full '{address}'")
    assert (ended.code, ended.out) == (exit_codes.USAGE, "")
    assert "No space left on device" in ended.err
    assert not (workspace.home / ".local/jn/profiles/mcp/full").exists()


def test_list_and_info_ask_no_server(workspace: Workspace) -> None:
    """JN-61, JN-62: names, places and tools; one that cannot be read is listed with its problem."""
    created(workspace, description="BioMCP: Biomedical data")
    workspace.profile("broken", {"command": 5})
    starts = workspace.log()
    listed = json.loads(workspace.quick("jn profile list --type mcp --format json").out)
    assert [(row["name"], row["tools"], bool(row["problem"])) for row in listed] == [
        ("biomcp", 1, False),
        ("broken", 0, True),
    ]
    assert "@biomcp  mcp  user  1 tools  BioMCP: Biomedical data" in workspace.quick("jn profile list").out
    told = json.loads(workspace.quick("jn profile info @biomcp --format json").out)
    assert (told["tools"], told["place"], told["minimal"]) == (["search"], "user", False)
    assert "description: BioMCP" in workspace.quick("jn profile info @biomcp").out
    assert workspace.quick("jn profile list --type nope").code == exit_codes.USAGE
    assert workspace.log() == starts


def test_explore_gives_what_a_profile_is_made_from(workspace: Workspace) -> None:
    """JN-54, JN-55, JN-63: by profile, by bare name, by preset, by address; the same object.

    The hash of a profile is that of the tools that it records.
    """
    created(workspace)
    address = workspace.serve(SEARCH, COUNT)
    place = workspace.work / ".jn"
    place.mkdir()
    words = launch(address)
    row = {"launcher": "stdio", "package": " ".join([words["command"], *words["args"]])}
    (place / "mcp-launchers.json").write_text(json.dumps({"preset": row}))
    found = [
        json.loads(workspace.quick(f"jn {line}").out)
        for line in (
            "profile explore @biomcp",
            "mcp explore biomcp",
            f"mcp explore '{address}'",
            "profile explore @preset",
        )
    ]
    assert [one["plugin"] for one in found] == ["mcp"] * 4
    assert [one["service"] for one in found][:2] == ["biomcp"] * 2
    recorded = workspace.quick("jn profile version @biomcp").out.strip()
    every = workspace.quick(f"jn profile version '{address}'").out.strip()
    assert [one["version_hash"] for one in found] == [recorded, recorded, every, every]
    assert [tool["name"] for tool in found[0]["discoverable"]["tools"]] == ["search", "count"]
    assert found[0]["discoverable"]["resources"][0]["uri"] == "resource://trials/NCT1"


def test_mcp_tools_schema_and_hash_are_parts_of_it(workspace: Workspace) -> None:
    """JN-63, JN-57: records, one descriptor, one line."""
    address = workspace.serve(SEARCH, COUNT)
    assert [row["name"] for row in workspace.quick(f"jn mcp tools '{address}'").records] == ["search", "count"]
    assert json.loads(workspace.quick(f"jn mcp schema '{address}' search").out) == SEARCH
    assert "there are: count, search" in workspace.quick(f"jn mcp schema '{address}' nope").err
    hashes = [
        workspace.quick(f"jn mcp hash '{address}' --kind {kind}").out.strip() for kind in ("sha256", "md5", "cid")
    ]
    assert [len(one) for one in hashes] == [64, 32, 59]
    assert workspace.quick(f"jn mcp hash '{address}'").out.strip() == hashes[0]


def test_update_is_a_conversation_on_a_terminal(workspace: Workspace) -> None:
    """JN-59: the changes with their marks, the strategy, two questions, the test run; as in the document."""
    created(workspace)
    workspace.serve(RENAMED, COUNT)
    questions = [("Update examples in profile?", "y\n"), ("Test updated profile?", "\n")]
    ended = workspace.on_terminal("jn profile update biomcp", questions)
    assert ended.code == exit_codes.OK, ended.out
    for line in (
        "Connecting to biomcp MCP server...",
        "Fetching current tool schemas...",
        "Required parameter 'gene' renamed to 'query'",
        "breaking change",
        "Update profile to use 'query' instead of 'gene'",
        "Add 'filters' parameter as optional",
        "Recalculate schema hash",
        "Update examples in profile? [Y/n]",
        "Updated profile saved to",
        "New schema hash:",
        "Test updated profile? [Y/n]",
        'Running: jn cat "@biomcp/search?query=BRAF"',
        "✓ Success",
        "Profile updated successfully.",
    ):
        assert line in ended.out, ended.out
    files = written(workspace)
    assert files["search"]["examples"] == [{"input": {"query": "BRAF"}, "output_sample": "..."}]
    assert files["search"]["notes"] == NOTED["notes"]
    assert workspace.quick("jn profile validate @biomcp").code == exit_codes.OK


def test_update_is_answered_by_flags_elsewhere(workspace: Workspace) -> None:
    """JN-59, JN-52: no terminal and no flags is a refusal that names them; the version before is kept."""
    created(workspace)
    before = written(workspace)
    workspace.serve(RENAMED, COUNT)
    refused = workspace.quick("jn profile update biomcp")
    assert (refused.code, written(workspace)) == (exit_codes.USAGE, before)
    assert "--yes" in refused.err
    assert "Update strategy:" in workspace.quick("jn profile update biomcp --dry-run").out
    assert written(workspace) == before
    assert workspace.quick("jn profile update @biomcp --no-examples --no-test").code == exit_codes.OK
    after = written(workspace)
    assert after["search"]["examples"] == before["search"]["examples"]
    assert after["search"]["inputSchema"]["required"] == ["query"]
    versions = list((workspace.home / ".local/jn/profiles/mcp/biomcp/.versions").iterdir())
    assert json.loads((versions[0] / "search.json").read_text()) == before["search"]


def test_update_follows_tools_that_are_renamed_and_drops_those_that_are_gone(workspace: Workspace) -> None:
    """JN-59: notes move with the tool; --all-tools records new ones."""
    created(workspace, tools={"search": NOTED, "count": {}})
    workspace.serve({**SEARCH, "name": "search_all"}, {"name": "new"})
    ended = workspace.quick("jn profile update biomcp --yes --all-tools")
    assert ended.code == exit_codes.OK, ended.out
    assert set(written(workspace)) == {"_meta", "search_all", "new"}
    assert written(workspace)["search_all"]["notes"] == NOTED["notes"]
    assert written(workspace)["_meta"]["tested_with"] == ["search_all?gene=BRAF"]
    assert "Drop the tool 'count'" in ended.out


def test_a_failed_test_run_is_reported(workspace: Workspace) -> None:
    """JN-72: references that work and that do not, by the exit code too."""
    created(workspace, tested_with=["search?gene=BRAF", "fail?x=1"])
    workspace.serve(SEARCH, {"name": "fail"})
    ended = workspace.quick("jn profile test @biomcp --ignore-schema")
    assert ended.code == exit_codes.FAILED
    assert ["✓" in ended.out, "✗" in ended.out] == [True, True]
    assert workspace.quick('jn profile test @biomcp "search?gene=TP53" --ignore-schema').code == exit_codes.OK
    assert workspace.quick("jn profile remove @biomcp").code == exit_codes.OK
    assert workspace.quick("jn profile info @biomcp").code == exit_codes.USAGE
    restored = workspace.quick("jn profile restore @biomcp")
    assert (restored.code, restored.out) == (
        exit_codes.OK,
        f"Restored {workspace.home}/.local/jn/profiles/mcp/biomcp\n",
    ), restored.err
    assert workspace.quick("jn profile info @biomcp").code == exit_codes.OK
    unknown = workspace.quick("jn profile restore @biomcp 2020")
    assert unknown.code == exit_codes.USAGE and "no version '2020'; it has " in unknown.err
