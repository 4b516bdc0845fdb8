"""`patchbay import`, as a user types it. Issues 17.3 and 33.8."""

from __future__ import annotations

import json
import shlex
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.applications.applications import APPLICATIONS
from patchbay.stores.folder_lock import claim_folder
from tests.cli.workspace import Ended, Workspace
from tests.client.applications.places import NAMES, NO_FOLDERS, machine, place_sample, sample


def mounts(workspace: Workspace) -> dict[str, Any]:
    """The definitions in the folder of the hub."""
    return {file.stem: json.loads(file.read_text()) for file in sorted((workspace.folder / "servers").glob("*.json"))}


@pytest.fixture
def hub(workspace: Workspace) -> Workspace:
    """A desk with a folder for the servers of its hub."""
    workspace.environment |= {"PATCHBAY_SERVERS": str(workspace.folder / "servers"), **NO_FOLDERS}
    return workspace


def rows_of(done: Ended) -> dict[tuple[str, str], str]:
    """The rows of the list: client and server to the rest of the line."""
    lines = [line.split(None, 3) for line in done.out.splitlines() if line[:1].isdigit()]
    return {(client, server): rest for _, client, server, rest in lines}


def test_the_servers_of_all_clients_are_listed_and_imported(hub: Workspace) -> None:
    for name in NAMES:
        place_sample(name, hub.home)
    listed = hub.quick("patchbay import")
    assert listed.code == 0
    assert "Name servers, or add --all" in listed.err
    rows = rows_of(listed)
    assert len(rows) == 55
    assert mounts(hub) == {}
    done = hub.quick("patchbay import --all")
    assert done.code == 0, done
    importable = {key for key, rest in rows.items() if not rest.startswith("cannot be imported")}
    assert len(mounts(hub)) == len(importable) == 38
    assert mounts(hub)["notion"] == {"kind": "upstream", "address": "https://mcp.notion.example/mcp"}
    assert "github of windsurf is mounted as github-windsurf" in done.out
    assert mounts(hub)["github"]["address"] == "https://api.githubcopilot.com/mcp/"
    assert "  BRAVE_API_KEY\n" in done.out
    assert "  PERPLEXITY_KEY\n" in done.out
    assert "BSA-0123456789" not in done.out + done.err
    assert {APPLICATIONS[name].file(machine(hub.home)).read_bytes() for name in NAMES} == set(map(sample, NAMES))
    again = rows_of(hub.quick("patchbay import"))
    assert all(again[key].startswith("already here") for key in importable)


def test_a_list_without_a_server_to_import_says_so(hub: Workspace) -> None:
    own, far = hub.folder / "own.json", hub.folder / "far.json"
    own.write_text(json.dumps({"mcpServers": {"hub": {"url": "http://127.0.0.1:8000/mcp"}}}))
    listed = hub.quick(f"patchbay import {own}")
    assert listed.code == 0 and "None of these servers can be imported: the last column says why" in listed.err
    assert "--all" not in listed.err
    far.write_text(json.dumps({"mcpServers": {"far": {"url": "https://far.example/mcp"}}}))
    assert hub.quick(f"patchbay import {far} --all").code == 0
    assert "Already here. To import a server again, name it: far" in hub.quick(f"patchbay import {far}").err


def test_chosen_servers_of_one_client_are_imported(hub: Workspace) -> None:
    place_sample("claude-code", hub.home)
    assert hub.quick("patchbay import claude-code notion 3").code == 0
    assert list(mounts(hub)) == ["airtable", "notion"]


@pytest.mark.process
def test_servers_are_chosen_on_a_terminal(hub: Workspace) -> None:
    place_sample("claude-desktop", hub.home)
    assert hub.on_terminal("patchbay import", [("Import which?", "\n")]).code == 0
    assert mounts(hub) == {}
    assert hub.on_terminal("patchbay import", [("Import which?", "1, weather\n")]).code == 0
    assert list(mounts(hub)) == ["filesystem", "weather"]
    answers = [("Import which?", "all\n"), ("Store BRAVE_API_KEY", "n\n")]
    assert hub.on_terminal("patchbay import", answers).code == 0
    assert list(mounts(hub)) == ["brave-search", "filesystem", "weather"]


def test_variables_are_written_into_a_file_of_the_shell(hub: Workspace, tmp_path: Path) -> None:
    place_sample("zed", hub.home)
    done = hub.quick(f"patchbay import zed --all --env-file {tmp_path}/hub.env")
    assert done.code == 0, done
    assert shlex.split((tmp_path / "hub.env").read_text()) == [
        "REMOTE_MCP_SERVER_AUTHORIZATION=zed-0123456789",
    ]
    assert stat.S_IMODE((tmp_path / "hub.env").stat().st_mode) == 0o600
    assert "set -a; . " in done.out
    assert mounts(hub)["older"]["enabled"] is False
    assert hub.quick(f"patchbay import zed --all --env-file {tmp_path}/hub.env").code == 0


def place_notes(hub: Workspace, name: str, **env: str) -> None:
    """Let the client cursor have a server with these variables."""
    file = APPLICATIONS["cursor"].file(machine(hub.home))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {name: {"command": "npx", "args": ["-y", "notes"], "env": env}}}))


def test_secrets_are_stored_in_the_hub_each_for_its_server_alone(hub: Workspace) -> None:
    """Issue 56, 1: what is no secret stays as it is written."""
    place_notes(hub, "notes", API_KEY="k-12345678", MEMORY_FILE_PATH="/srv/ada/m.json")
    done = hub.quick("patchbay import cursor --all --store-secrets")
    assert done.code == 0, done
    assert "Stored in the hub, each for its server alone: API_KEY" in done.out
    assert mounts(hub)["notes"]["environment"] == {"API_KEY": "${API_KEY}", "MEMORY_FILE_PATH": "/srv/ada/m.json"}
    assert "notes" in hub.quick("patchbay secret list").out
    place_notes(hub, "other", API_KEY="another-value")
    done = hub.quick("patchbay import cursor --all --store-secrets")
    assert done.code != 0
    assert "API_KEY is not stored: it has another value in the hub" in done.out + done.err
    assert "k-12345678" not in done.out + done.err
    assert "another-value" not in done.out + done.err
    place_notes(hub, "third", API_KEY="k-12345678", LEVEL="2")
    assert hub.quick("patchbay import cursor --all --store-secrets").code == 0
    assert "notes, third" in hub.quick("patchbay secret list").out


def test_an_import_on_a_terminal_asks_whether_to_store_the_secrets(hub: Workspace) -> None:
    place_notes(hub, "notes", API_KEY="k-12345678")
    done = hub.on_terminal("patchbay import cursor notes", [("Store API_KEY in the hub?", "y\n")])
    assert done.code == 0, done
    assert "API_KEY" in hub.quick("patchbay secret list").out


def test_only_what_looks_like_a_secret_becomes_a_reference_and_options_decide_otherwise(hub: Workspace) -> None:
    file = APPLICATIONS["cursor"].file(machine(hub.home))
    file.parent.mkdir(parents=True)
    env = {"MEMORY_FILE_PATH": "/srv/ada/m.json", "TEAM_ID": "T0123", "API_KEY": "k-1", "WORD": "open sesame"}
    file.write_text(json.dumps({"mcpServers": {"notes": {"command": "npx", "args": ["-y", "notes"], "env": env}}}))
    done = hub.quick("patchbay import --all")
    assert done.code == 0, done
    assert mounts(hub)["notes"]["environment"] == {**env, "API_KEY": "${API_KEY}"}
    assert "  API_KEY\n" in done.out
    assert "MEMORY_FILE_PATH" not in done.out
    shown = hub.quick("patchbay import cursor notes --secret WORD --plain TEAM_ID").out
    assert "mounts notes again" in shown
    assert mounts(hub)["notes"]["environment"] == {**env, "API_KEY": "${API_KEY}", "WORD": "${WORD}"}


def test_a_server_that_an_import_made_is_imported_again(hub: Workspace) -> None:
    """Of a mount that an earlier version wrote, `--all` mends the references to values that are no secrets."""
    place_sample("zed", hub.home)
    assert hub.quick("patchbay import --all").code == 0
    first = mounts(hub)
    file = hub.folder / "servers/older.json"
    file.write_text(json.dumps(first["older"] | {"environment": {"MODE": "${MODE}"}}))
    assert hub.quick("patchbay import --all").code == 0
    assert mounts(hub) == first
    by_hand = first["older"] | {"title": "Mine", "changes": "hold", "environment": {"MODE": "slow"}}
    file.write_text(json.dumps(by_hand))
    kept = hub.quick("patchbay import --all")
    assert "Already here, and left as they are" in kept.err
    assert mounts(hub)["older"] == by_hand
    assert hub.quick("patchbay import zed older").code == 0
    assert mounts(hub) == first | {"older": first["older"] | {"changes": "hold"}}


def test_a_dry_run_shows_the_definitions_and_writes_nothing(hub: Workspace, tmp_path: Path) -> None:
    place_sample("zed", hub.home)
    done = hub.quick(f"patchbay import zed --all --dry-run --env-file {tmp_path}/hub.env")
    assert '"address": "https://remote.example/mcp"' in done.out
    assert "zed-0123456789" not in done.out + done.err
    assert not (hub.folder / "servers").exists()
    assert not (tmp_path / "hub.env").exists()


def test_this_hub_and_equal_servers_are_listed_and_not_imported(hub: Workspace) -> None:
    for name, address in (("cursor", "http://127.0.0.1:8000/mcp"), ("gemini", "https://same.example/mcp")):
        file = APPLICATIONS[name].file(machine(hub.home))
        file.parent.mkdir(parents=True)
        file.write_text(
            json.dumps({"mcpServers": {"hub": {"url": address}, "same": {"url": "https://same.example/mcp"}}})
        )
    rows = rows_of(hub.quick("patchbay import"))
    assert rows["cursor", "hub"].endswith("this hub itself")
    assert rows["gemini", "same"].endswith("the same as same of cursor")
    assert hub.quick("patchbay import --all").code == 0
    assert list(mounts(hub)) == ["same"]


def test_a_file_that_cannot_be_read_is_left_out_of_all_and_refused_alone(hub: Workspace) -> None:
    place_sample("zed", hub.home)
    place_sample("codex", hub.home).path.write_text("[mcp_servers\n")
    done = hub.quick("patchbay import --all")
    assert done.code == 0
    assert "config.toml: expected TOML" in done.err
    assert len(mounts(hub)) == 3
    alone = hub.quick("patchbay import codex")
    assert alone.code == 2
    assert "line 1, column 13" in alone.err


def test_the_project_of_this_folder_is_read_only_on_request(hub: Workspace) -> None:
    """A checkout of others cannot add its programs to `--all`."""
    (hub.work / ".vscode").mkdir()
    (hub.work / ".vscode/mcp.json").write_bytes(sample("vscode"))
    place_sample("zed", hub.home)
    assert hub.quick("patchbay import --all").code == 0
    assert list(mounts(hub)) == ["local-mcp-server", "older", "remote-mcp-server"]
    assert hub.quick("patchbay import --project github").code == 2
    assert hub.quick("patchbay import --project vscode github").code == 0
    assert "github" in mounts(hub)


def test_a_name_with_control_characters_is_shown_without_them(hub: Workspace) -> None:
    file = APPLICATIONS["cursor"].file(machine(hub.home))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"a\x1b[31mb": {"url": "https://a.example/mcp"}}}))
    done = hub.quick("patchbay import --all")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert list(mounts(hub)) == ["a-31mb"]


def test_what_is_not_taken_over_is_named_with_the_reason(hub: Workspace) -> None:
    """33.8: nothing of an entry disappears in silence, and a sandboxed server is not imported."""
    place_sample("vscode", hub.home)
    place_sample("claude-code", hub.home)
    done = hub.quick("patchbay import --all")
    assert done.code == 0
    assert rows_of(done)["vscode", "sandboxed"].startswith("cannot be imported  sandboxEnabled: the client runs this")
    assert "  vscode developed: dev: it restarts the program for its developer\n" in done.out
    assert "  claude-code linear: oauth.callbackPort: the hub has its own redirect URI" in done.out
    assert "  claude-code linear: each caller signs in on a page of the hub, /upstreams/NAME\n" in done.out
    assert mounts(hub)["linear"]["account"] == "caller"
    assert "sandboxed" not in mounts(hub)


def test_a_server_that_no_mount_can_be_is_listed_with_the_reason(hub: Workspace) -> None:
    """33.8: the list and the import agree."""
    file = hub.work / "mcp.json"
    far = {"url": "https://far.example/mcp", "headers": {"Authorization": "Bearer x"}, "auth": {"scopes": ["a"]}}
    file.write_text(json.dumps({"mcpServers": {"far": far}}))
    done = hub.quick("patchbay import mcp.json --client cursor --all")
    assert rows_of(done)["cursor", "far"].startswith("cannot be imported  headers: expected no header Authorization")
    assert mounts(hub) == {}


def test_an_option_says_whose_file_it_is(hub: Workspace) -> None:
    """33.8: `${A}` is a reference in Kiro's files, and text in those of Claude Desktop."""
    file = hub.work / "saved.json"
    file.write_text(json.dumps({"mcpServers": {"far": {"command": "a", "args": ["${A}"]}}}))
    guessed = hub.quick("patchbay import saved.json --all")
    assert (
        "saved.json is read as a file of Claude Desktop; if it is that of another client, add --client" in guessed.err
    )
    assert mounts(hub) == {}
    named = hub.quick("patchbay import saved.json --client kiro --all")
    assert (named.code, named.err) == (0, "")
    assert mounts(hub)["far"]["address"] == "mcp+stdio:a '${A}'"


def test_the_running_hub_on_another_port_is_this_hub(hub: Workspace) -> None:
    file = APPLICATIONS["cursor"].file(machine(hub.home))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"hub": {"url": "http://127.0.0.1:8123/mcp"}}}))
    note = {"url": "http://127.0.0.1:8123", "host": "127.0.0.1:8123"}
    with closing(claim_folder(hub.folder / "data", note)):
        assert rows_of(hub.quick("patchbay import"))["cursor", "hub"].endswith("this hub itself")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("curser",), "did you mean 'cursor'?"),
        (("--client", "kiro"), "expected a FILE before it; without one: `patchbay import kiro`"),
        (("kiro", "--client", "kiro"), "expected the path of a file before --client, but there is no such file"),
        (("taken", "--client", "kirro"), "did you mean 'kiro'?"),
        (("cursor",), "there is no such file"),
        (("goose", "--project"), "expected its settings file for a project, but there is no such file"),
        (("nowhere/mcp.json",), "there is no such file"),
        (("zed", "nope"), "expected a server of the list, got 'nope'"),
        (("zed", "mcp-server-github"), "it is not imported: it is an extension of Zed"),
        (("zed", "--all", "--env-file", "taken"), "expected a new file for --env-file"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(words: tuple[str, ...], expected: str, hub: Workspace) -> None:
    place_sample("zed", hub.home)
    (hub.work / "taken").write_text("")
    done = hub.quick(f"patchbay import {shlex.join(words)}")
    assert done.code == 2
    assert expected in done.err
    assert not (hub.folder / "servers").exists()


def test_a_machine_without_clients_says_so(hub: Workspace) -> None:
    assert hub.quick("patchbay import").out == "No client of this machine has configured a server.\n"


def test_two_entries_of_one_program_with_other_secrets_are_two_servers(hub: Workspace) -> None:
    for name in ("cursor", "gemini"):
        file = APPLICATIONS[name].file(machine(hub.home))
        file.parent.mkdir(parents=True)
        entry = {"command": "npx", "args": ["-y", "one"], "env": {"API_KEY": f"of-{name}"}}
        file.write_text(json.dumps({"mcpServers": {"one": entry}}))
    assert hub.quick("patchbay import cursor one").code == 0
    rows = rows_of(hub.quick("patchbay import"))
    assert rows["cursor", "one"].startswith("already here")
    assert rows["gemini", "one"].startswith("on")
    assert hub.quick("patchbay import --all").code == 0
    assert sorted(mounts(hub)) == ["one", "one-gemini"]
    rows = rows_of(hub.quick("patchbay import"))
    assert "as one:" in rows["cursor", "one"]
    assert "as one-gemini:" in rows["gemini", "one"]
