"""The table of applications: the file of each on every platform, the section of its servers, and how entries read.

One row says everything about one application. `patchbay install`, `patchbay import` and the snippets of the pages use
it. Sources are in the field `source`: the public documentation of each application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchbay.client.applications.edits import Format
from patchbay.client.applications.entries import CodexFamily, Family, GooseFamily, ZedFamily
from patchbay.client.applications.json_text import JsonText
from patchbay.client.applications.references import Syntax
from patchbay.client.applications.toml_text import TomlText
from patchbay.client.applications.yaml_text import YamlText
from patchbay.client.suggestions import describe_unknown_name
from patchbay.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Machine:
    """The places of a user's files. `platform` is `linux`, `darwin` or `win32`, as in `sys.platform`."""

    platform: str
    home: Path
    environ: Mapping[str, str]

    @property
    def config(self) -> Path:
        """The folder of settings on Linux, by the XDG Base Directory Specification."""
        given = self.environ.get("XDG_CONFIG_HOME", "")
        return Path(given) if given.startswith("/") else self.home / ".config"

    @property
    def roaming(self) -> Path:
        """The folder of settings on Windows."""
        given = self.environ.get("APPDATA")
        return Path(given) if given else self.home / "AppData" / "Roaming"

    @property
    def support(self) -> Path:
        """The folder of settings on macOS."""
        return self.home / "Library" / "Application Support"

    def from_variable(self, name: str, otherwise: Path) -> Path:
        """The folder that a variable names, or another one."""
        return Path(self.environ[name]) if self.environ.get(name) else otherwise


def find_machine(platform: str, environ: Mapping[str, str]) -> Machine:
    """Return the places of the current user."""
    home = environ.get("USERPROFILE" if platform == "win32" else "HOME")
    return Machine(platform, Path(home) if home else Path.home(), environ)


@dataclass(frozen=True, slots=True)
class Application:
    """One MCP client.

    `section` is the member of its file that has the servers by name. `shown` is its file as people write it.
    `reference` is how it writes a variable of the environment in a header, with `{}` for the name; empty when it
    cannot. `speaks_http` is False for a client that only starts programs. `after` tells a person how the client takes a
    change into account.
    """

    name: str
    title: str
    section: str
    form: Format
    family: Family
    file: Callable[[Machine], Path]
    shown: str
    source: str
    project: str = ""
    syntax: Syntax = "literal"
    reference: str = ""
    speaks_http: bool = True
    after: str = ""


def _by_platform(machine: Machine, linux: Path, mac: Path, windows: Path) -> Path:
    return {"darwin": mac, "win32": windows}.get(machine.platform, linux)


def _claude_desktop(machine: Machine) -> Path:
    folder = _by_platform(machine, machine.config / "Claude", machine.support / "Claude", machine.roaming / "Claude")
    return folder / "claude_desktop_config.json"


def _vscode(machine: Machine) -> Path:
    folder = _by_platform(machine, machine.config / "Code", machine.support / "Code", machine.roaming / "Code")
    return folder / "User" / "mcp.json"


def _zed(machine: Machine) -> Path:
    folder = _by_platform(machine, machine.config / "zed", machine.home / ".config" / "zed", machine.roaming / "Zed")
    return folder / "settings.json"


def _goose(machine: Machine) -> Path:
    windows = machine.roaming / "Block" / "goose" / "config"
    return _by_platform(machine, machine.config / "goose", machine.home / ".config" / "goose", windows) / "config.yaml"


_ENV_FILE = {"envFile": "it reads variables from the file of its field envFile; write them as env instead"}

ROWS = (
    Application(
        "claude-desktop",
        "Claude Desktop",
        "mcpServers",
        JsonText(),
        Family(),
        _claude_desktop,
        "claude_desktop_config.json",
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        speaks_http=False,
        after="Quit Claude Desktop and start it again",
    ),
    Application(
        "claude-code",
        "Claude Code",
        "mcpServers",
        JsonText(),
        Family(
            kind="http",
            stdio_kind="stdio",
            seconds=("timeout", 0.001),
            beyond={"headersHelper": "a program makes its headers (headersHelper), which only Claude Code runs"},
        ),
        lambda machine: machine.from_variable("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json",
        "~/.claude.json",
        "https://code.claude.com/docs/en/mcp",
        project=".mcp.json",
        syntax="shell",
        reference="${{{}}}",
        after="Start a new session of Claude Code",
    ),
    Application(
        "cursor",
        "Cursor",
        "mcpServers",
        JsonText(),
        Family(beyond=_ENV_FILE),
        lambda machine: machine.home / ".cursor" / "mcp.json",
        "~/.cursor/mcp.json",
        "https://cursor.com/docs/mcp",
        project=".cursor/mcp.json",
        syntax="editor",
        reference="${{env:{}}}",
        after="Cursor reads the file at once; if the server is missing, restart Cursor",
    ),
    Application(
        "vscode",
        "VS Code",
        "servers",
        JsonText(),
        Family(kind="http", stdio_kind="stdio", beyond=_ENV_FILE),
        _vscode,
        "mcp.json",
        "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        project=".vscode/mcp.json",
        syntax="editor",
        reference="${{env:{}}}",
        after="Run `MCP: List Servers` in VS Code and start the server, or restart VS Code",
    ),
    Application(
        "windsurf",
        "Windsurf",
        "mcpServers",
        JsonText(),
        Family(url_keys=("serverUrl", "url"), exclude="disabledTools"),
        lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
        "~/.codeium/windsurf/mcp_config.json",
        "https://docs.windsurf.com/windsurf/cascade/mcp",
        syntax="editor",
        reference="${{env:{}}}",
        after="Press the refresh button of the MCP servers in Windsurf, or restart Windsurf",
    ),
    Application(
        "codex",
        "Codex",
        "mcp_servers",
        TomlText(),
        CodexFamily(
            seconds=("tool_timeout_sec", 1.0),
            include="enabled_tools",
            exclude="disabled_tools",
            beyond={"http_headers_helper": "a program makes its headers (http_headers_helper), which only Codex runs"},
        ),
        lambda machine: machine.from_variable("CODEX_HOME", machine.home / ".codex") / "config.toml",
        "~/.codex/config.toml",
        "https://developers.openai.com/codex/mcp",
        project=".codex/config.toml",
        reference="{}",
        after="Start a new session of Codex",
    ),
    Application(
        "gemini",
        "Gemini CLI",
        "mcpServers",
        JsonText(),
        Family(
            url_keys=("httpUrl", "url"),
            seconds=("timeout", 0.001),
            include="includeTools",
            exclude="excludeTools",
            beyond={"authProviderType": "it signs in with the credentials of Google, which only Gemini CLI has"},
        ),
        lambda machine: machine.home / ".gemini" / "settings.json",
        "~/.gemini/settings.json",
        "https://geminicli.com/docs/tools/mcp-server",
        project=".gemini/settings.json",
        syntax="dollar",
        reference="${{{}}}",
        after="Start Gemini CLI again",
    ),
    Application(
        "zed",
        "Zed",
        "context_servers",
        JsonText(),
        ZedFamily(),
        _zed,
        "~/.config/zed/settings.json",
        "https://zed.dev/docs/ai/mcp",
        project=".zed/settings.json",
        after="Zed reads the file at once",
    ),
    Application(
        "goose",
        "Goose",
        "extensions",
        YamlText(),
        GooseFamily(seconds=("timeout", 1.0), include="available_tools"),
        _goose,
        "~/.config/goose/config.yaml",
        "https://block.github.io/goose/docs/guides/config-files",
        syntax="dollar",
        reference="${{{}}}",
        after="Start a new session of Goose",
    ),
)
"""All applications, in the order of lists."""

APPLICATIONS: Mapping[str, Application] = {row.name: row for row in ROWS}


def find_application(name: str) -> Application:
    """Return the application of a name, `cursor` or `Cursor`. Raises ConfigError with similar names."""
    wanted = name.lower().replace(" ", "-")
    for row in ROWS:
        if wanted in (row.name, row.title.lower().replace(" ", "-")):
            return row
    raise ConfigError("CLIENT", "", describe_unknown_name(name, list(APPLICATIONS), "client"))
