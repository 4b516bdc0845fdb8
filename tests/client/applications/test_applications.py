"""The table of applications: the file of each on three platforms, and names that a person may type."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.client.applications.applications import APPLICATIONS, ROWS, Machine, find_application, find_machine
from patchbay.client.applications.entries import Token
from patchbay.client.applications.own_entry import make_entry
from patchbay.client.applications.reading import list_files
from patchbay.errors import ConfigError

HOME = Path("/srv/ada")
FILES = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "gemini": (".gemini/settings.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
    "cline": (".cline/data/settings/cline_mcp_settings.json",) * 3,
    "kiro": (".kiro/settings/mcp.json",) * 3,
    "copilot-cli": (".copilot/mcp-config.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
    "continue": (".continue/mcpServers/patchbay.json",) * 3,
}


def test_the_file_of_each_application_on_each_platform() -> None:
    found = {
        row.name: tuple(str(row.file(Machine(one, HOME, {})).relative_to(HOME)) for one in ("linux", "darwin", "win32"))
        for row in ROWS
    }
    assert found == FILES


def test_variables_of_the_environment_move_files() -> None:
    moved = {
        "XDG_CONFIG_HOME": "/x",
        "CODEX_HOME": "/c",
        "CLAUDE_CONFIG_DIR": "/d",
        "CLINE_DATA_DIR": "/l",
        "COPILOT_HOME": "/p",
        "APPDATA": "/a",
        "HOME": "/h",
        "USERPROFILE": "/u",
    }
    linux, windows = find_machine("linux", moved), find_machine("win32", moved)
    assert str(APPLICATIONS["zed"].file(linux)) == "/x/zed/settings.json"
    assert str(APPLICATIONS["codex"].file(linux)) == "/c/config.toml"
    assert str(APPLICATIONS["claude-code"].file(linux)) == "/d/.claude.json"
    assert str(APPLICATIONS["cursor"].file(linux)) == "/h/.cursor/mcp.json"
    assert str(APPLICATIONS["cline"].file(linux)) == "/l/settings/cline_mcp_settings.json"
    assert str(APPLICATIONS["copilot-cli"].file(linux)) == "/p/mcp-config.json"
    assert str(APPLICATIONS["opencode"].file(windows)) == "/x/opencode/opencode.json"
    assert str(APPLICATIONS["vscode"].file(windows)) == "/a/Code/User/mcp.json"
    assert str(APPLICATIONS["cursor"].file(windows)) == "/u/.cursor/mcp.json"
    assert find_machine("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "relative"}).config == Path("/h/.config")


def test_the_file_of_a_project_is_listed_once() -> None:
    machine = Machine("linux", HOME, {})
    cursor = APPLICATIONS["cursor"]
    assert [str(one.path) for one in list_files(cursor, machine, Path("/checkout"))] == [
        "/srv/ada/.cursor/mcp.json",
        "/checkout/.cursor/mcp.json",
    ]
    assert len(list_files(cursor, machine, HOME)) == 1
    assert {row.name: row.project for row in ROWS if row.project} == {
        "claude-code": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
        "codex": ".codex/config.toml",
        "gemini": ".gemini/settings.json",
        "zed": ".zed/settings.json",
        "kiro": ".kiro/settings/mcp.json",
        "copilot-cli": ".github/mcp.json",
        "opencode": "opencode.json",
        "continue": ".continue/mcpServers/patchbay.json",
    }


def test_other_files_of_a_client_are_listed_when_they_exist(tmp_path: Path) -> None:
    """33.8: the servers that a client reads from more files than one are found in each."""
    home, project = tmp_path / "home", tmp_path / "project"
    own = {
        "cline": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "opencode": ".config/opencode/opencode.jsonc",
        "continue": ".continue/config.yaml",
    }
    shared = {
        "copilot-cli": ".mcp.json",
        "opencode": ".opencode/opencode.json",
        "continue": ".continue/mcpServers/a.yaml",
    }
    for base, paths in ((home, own), (project, shared)):
        for path in paths.values():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text("")
    for name in own.keys() | shared.keys():
        row, found = APPLICATIONS[name], Machine("linux", home, {})
        files = [one.path for one in list_files(row, found, project)]
        expected = [row.file(found), *([home / own[name]] if name in own else [])]
        if row.project:
            expected += [project / row.project, *([project / shared[name]] if name in shared else [])]
        assert files == list(dict.fromkeys(expected))


def test_an_application_is_found_by_its_name_and_its_title() -> None:
    assert find_application("VS Code") is find_application("vscode")
    assert find_application("Claude Desktop").name == "claude-desktop"
    with pytest.raises(ConfigError, match="did you mean 'cursor'"):
        find_application("curser")


def test_a_key_is_written_as_each_application_reads_it() -> None:
    url, variable = "https://hub.example/mcp", Token(variable="HUB_KEY")
    made = {row.name: make_entry(row, "hub", url, ("patchbay", "stdio"), variable) for row in ROWS if row.reference}
    assert made == {
        "claude-code": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${HUB_KEY}"}},
        "cursor": {"url": url, "headers": {"Authorization": "Bearer ${env:HUB_KEY}"}},
        "vscode": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${env:HUB_KEY}"}},
        "windsurf": {"serverUrl": url, "headers": {"Authorization": "Bearer ${env:HUB_KEY}"}},
        "codex": {"url": url, "bearer_token_env_var": "HUB_KEY"},
        "gemini": {"httpUrl": url, "headers": {"Authorization": "Bearer ${HUB_KEY}"}},
        "goose": {
            "name": "hub",
            "type": "streamable_http",
            "uri": url,
            "enabled": True,
            "timeout": 300,
            "env_keys": ["HUB_KEY"],
            "headers": {"Authorization": "Bearer ${HUB_KEY}"},
        },
        "kiro": {"url": url, "headers": {"Authorization": "Bearer ${HUB_KEY}"}},
        "copilot-cli": {
            "type": "http",
            "url": url,
            "headers": {"Authorization": "Bearer ${HUB_KEY}"},
            "tools": ["*"],
        },
        "opencode": {"type": "remote", "url": url, "headers": {"Authorization": "Bearer {env:HUB_KEY}"}},
    }
    key = Token("k3y")
    assert make_entry(APPLICATIONS["cline"], "hub", url, (), key) == {
        "type": "streamableHttp",
        "url": url,
        "headers": {"Authorization": "Bearer k3y"},
    }
    assert make_entry(APPLICATIONS["opencode"], "hub", "", ("p", "stdio")) == {
        "type": "local",
        "command": ["p", "stdio"],
    }
    assert make_entry(APPLICATIONS["codex"], "hub", url, (), key)["http_headers"] == {"Authorization": "Bearer k3y"}
    assert make_entry(APPLICATIONS["zed"], "hub", url, (), key)["headers"] == {"Authorization": "Bearer k3y"}
    assert make_entry(APPLICATIONS["claude-desktop"], "hub", url, ("p", "stdio")) == {"command": "p", "args": ["stdio"]}
