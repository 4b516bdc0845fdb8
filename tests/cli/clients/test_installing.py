"""`patchbay install` and `patchbay uninstall`, as a user types them. Issues 17.3 and 33.8."""

from __future__ import annotations

import json
import re
import shlex
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay.access.keys import PersonalKeys
from patchbay.cli import main
from patchbay.client.applications.applications import APPLICATIONS
from patchbay.stores import open_store
from patchbay.stores.folder_lock import claim_folder
from tests.cli.workspace import Workspace
from tests.client.applications.places import NAMES, NO_FOLDERS, machine, place_sample, sample


@pytest.fixture
def hub(workspace: Workspace) -> Workspace:
    """A desk whose hub has the server `notes`."""
    servers = workspace.folder / "servers"
    servers.mkdir()
    (servers / "notes.py").write_text("def read() -> str:\n    return ''\n")
    workspace.environment |= {"PATCHBAY_SERVERS": str(servers), **NO_FOLDERS}
    return workspace


def file_of(workspace: Workspace, name: str) -> Path:
    return APPLICATIONS[name].file(machine(workspace.home))


def entries(workspace: Workspace, name: str) -> Any:
    return APPLICATIONS[name].form.parse(file_of(workspace, name).read_text())[APPLICATIONS[name].section]


@pytest.mark.parametrize("name", NAMES)
def test_the_hub_is_installed_and_removed_byte_for_byte(name: str, hub: Workspace) -> None:
    place_sample(name, hub.home)
    done = hub.quick(f"patchbay install {name}")
    assert done.code == 0, done
    assert "patchbay" in entries(hub, name)
    assert "the backup is" in done.out
    assert APPLICATIONS[name].after in done.out
    assert f"  patchbay  {file_of(hub, name)}\n" in re.sub(" +", "  ", hub.quick("patchbay install --list").out)
    assert hub.quick(f"patchbay install {name}").out == f"{file_of(hub, name)} has this entry already\n"
    assert hub.quick(f"patchbay uninstall {name}").code == 0
    assert file_of(hub, name).read_bytes() == sample(name)


def test_one_server_has_its_own_name_and_url(hub: Workspace) -> None:
    assert hub.quick("patchbay install cursor notes --port 8123").code == 0
    assert entries(hub, "cursor") == {"notes": {"url": "http://127.0.0.1:8123/mcp/notes"}}
    assert hub.quick("patchbay install cursor notes --name mine --url https://hub.example/").code == 0
    assert entries(hub, "cursor")["mine"] == {"url": "https://hub.example/mcp/notes"}
    assert "--force removes it" in hub.quick("patchbay uninstall cursor --name mine").err
    assert hub.quick("patchbay uninstall cursor --name mine --force").code == 0
    assert hub.quick("patchbay uninstall cursor notes").code == 0
    assert not file_of(hub, "cursor").exists()


def test_the_entry_has_the_address_of_the_hub_that_runs(hub: Workspace) -> None:
    """33.8: a hub on port 8123 is written with this port; an option counts more."""
    note = {"url": "http://127.0.0.1:8123", "host": "127.0.0.1:8123", "servers": str(hub.folder / "servers")}
    with closing(claim_folder(hub.folder / "data", note)):
        done = hub.quick("patchbay install cursor")
        assert (done.code, entries(hub, "cursor")["patchbay"]) == (0, {"url": "http://127.0.0.1:8123/mcp"})
        assert "  patchbay  " in hub.quick("patchbay install --list").out
        hub.quick("patchbay install kiro --port 9000")
        assert entries(hub, "kiro")["patchbay"] == {"url": "http://127.0.0.1:9000/mcp"}
    hub.quick("patchbay install zed")
    assert entries(hub, "zed")["patchbay"] == {"url": "http://127.0.0.1:8000/mcp"}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"allowed": ["github"]}, "does not use 'patchbay', because of mcp.allowed in {}: add it there"),
        ({"excluded": ["patchbay"]}, "does not use 'patchbay', because of mcp.excluded in {}: take it out there"),
        ({"allowed": ["patchbay"]}, ""),
    ],
)
def test_rules_of_gemini_cli_that_leave_out_the_hub_are_named(
    rules: dict[str, list[str]], expected: str, hub: Workspace
) -> None:
    """33.10: the entry would be there without an effect."""
    file = file_of(hub, "gemini")
    file.parent.mkdir()
    file.write_text(json.dumps({"mcp": rules}))
    done = hub.quick("patchbay install gemini")
    assert done.code == 0
    assert expected.format(file) in done.err if expected else "mcp." not in done.err


def test_claude_desktop_starts_the_hub_by_absolute_paths(hub: Workspace) -> None:
    done = hub.quick("patchbay install claude-desktop notes")
    assert done.code == 0, done
    entry = entries(hub, "claude-desktop")["notes"]
    words = [entry["command"], *entry["args"]]
    assert Path(words[0]).is_absolute()
    assert words[words.index("stdio") :] == [
        *("stdio", "notes", "--data", str(hub.folder / "data"), "--servers", str(hub.folder / "servers"))
    ]
    assert "Claude Desktop starts the hub itself" in done.out
    assert hub.quick("patchbay install zed --stdio").code == 0
    assert entries(hub, "zed")["patchbay"]["command"] == words[0]


def test_the_file_of_the_project_is_written(hub: Workspace) -> None:
    assert hub.quick("patchbay install claude-code --project").code == 0
    found = json.loads((hub.work / ".mcp.json").read_text())
    assert found == {"mcpServers": {"patchbay": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}}}
    assert not file_of(hub, "claude-code").exists()
    assert hub.quick("patchbay uninstall claude-code --project").code == 0
    assert not (hub.work / ".mcp.json").exists()


def test_a_new_key_stands_in_the_entry_and_only_its_owner_reads_the_file(hub: Workspace) -> None:
    place_sample("gemini", hub.home)
    done = hub.quick("patchbay install gemini --key laptop --access shared")
    assert done.code == 0, done
    scheme, key = entries(hub, "gemini")["patchbay"]["headers"]["Authorization"].split()
    assert scheme == "Bearer"
    assert key not in done.out + done.err
    assert '"Authorization": "***"' in done.out
    assert stat.S_IMODE(file_of(hub, "gemini").stat().st_mode) == 0o600
    store = open_store("sqlite", hub.folder / "data")
    try:
        assert [one.name for one in PersonalKeys(store).all()] == ["laptop"]
    finally:
        store.close()


def test_a_key_may_stand_in_a_variable_of_the_client(hub: Workspace) -> None:
    done = hub.quick("patchbay install codex --key-variable HUB_KEY")
    assert entries(hub, "codex")["patchbay"]["bearer_token_env_var"] == "HUB_KEY"
    assert "Set HUB_KEY" in done.out


def test_a_shared_hub_says_that_the_client_signs_in(hub: Workspace) -> None:
    assert "asks callers to sign in" in hub.quick("patchbay install cursor --access shared").out


def test_a_dry_run_shows_the_change_and_writes_nothing(hub: Workspace) -> None:
    place_sample("codex", hub.home)
    done = hub.quick("patchbay install codex --dry-run")
    assert "+[mcp_servers.patchbay]\n" in done.out
    assert "Nothing is written" in done.err
    assert [one.name for one in file_of(hub, "codex").parent.iterdir()] == ["config.toml"]
    assert file_of(hub, "codex").read_bytes() == sample("codex")


@pytest.mark.process
def test_a_question_is_asked_on_a_terminal_and_no_writes_nothing(hub: Workspace) -> None:
    asked = hub.on_terminal("patchbay install cursor", [("Write this change?", "n\n")])
    assert asked.code == 0, asked.out
    assert not file_of(hub, "cursor").exists()
    assert hub.on_terminal("patchbay install cursor", [("Write this change?", "\n")]).code == 0
    assert "patchbay" in entries(hub, "cursor")
    assert hub.on_terminal("patchbay uninstall cursor --yes").code == 0
    assert not file_of(hub, "cursor").exists()


def test_the_list_names_found_clients_and_the_entries_of_this_hub(hub: Workspace) -> None:
    place_sample("zed", hub.home)
    place_sample("goose", hub.home).path.write_text("extensions: [")
    hub.quick("patchbay install cursor notes --name mine")
    rows = {line.split("  ")[0]: line for line in hub.quick("patchbay install").out.splitlines()[1:]}
    assert list(rows) == list(NAMES)
    assert "  mine  " in rows["cursor"]
    assert "  no  " in rows["zed"]
    assert "client not found" in rows["windsurf"]
    assert "unreadable: expected YAML" in rows["goose"]


def test_the_entry_of_another_server_stays(hub: Workspace) -> None:
    place_sample("zed", hub.home)
    done = hub.quick("patchbay install zed --name remote-mcp-server")
    assert (done.code, file_of(hub, "zed").read_bytes()) == (2, sample("zed"))
    assert "this entry is another server; choose a --name, or --replace it" in done.err
    done = hub.quick("patchbay uninstall zed --name remote-mcp-server")
    assert (done.code, file_of(hub, "zed").read_bytes()) == (2, sample("zed"))
    assert hub.quick("patchbay install zed --name remote-mcp-server --replace").code == 0
    assert entries(hub, "zed")["remote-mcp-server"] == {"url": "http://127.0.0.1:8000/mcp"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("install", "curser"), "did you mean 'cursor'?"),
        (("install", "cursor", "note"), "there is no server 'note'; did you mean 'notes'?"),
        (("install", "cursor", "ech"), "did you mean 'echo'?"),
        (("install", "cursor", "a b"), "there is no server 'a b'"),
        (("install", "windsurf", "--project"), "Windsurf has no file for a project"),
        (("install", "claude-desktop", "--key", "a"), "--key: Claude Desktop starts the hub itself here"),
        (("install", "zed", "--key-variable", "A"), "Zed reads no variables in its file; use --key"),
        (("install", "cursor", "--key", "a", "--key-variable", "A"), "expected --key or --key-variable, not both"),
        (("install", "cursor", "--url", "hub.example"), "expected a URL such as https://hub.example"),
        (("uninstall", "cursor"), "expected an entry 'patchbay', found none"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(words: tuple[str, ...], expected: str, hub: Workspace) -> None:
    done = hub.quick(f"patchbay {shlex.join(words)}")
    assert done.code == 2
    assert expected in done.err
    assert done.out == ""
    assert list(hub.home.iterdir()) == []


def test_names_of_clients_complete() -> None:
    environment = {"_PATCHBAY_COMPLETE": "bash_complete", "COMP_WORDS": "patchbay install cu", "COMP_CWORD": "2"}
    done = CliRunner().invoke(main, [], env=environment, prog_name="patchbay")
    assert done.stdout == "plain,cursor\n"
