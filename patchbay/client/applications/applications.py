"""The table of applications: the file of each on every platform, the section of its servers, and how entries read.

One row says everything about one application. `patchbay install`, `patchbay import` and the snippets of the pages use
it. Sources are in the field `source`: the public documentation of each application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchbay.client.applications.edits import Format
from patchbay.client.applications.entries import Family
from patchbay.client.applications.families import (
    ClineFamily,
    CodexFamily,
    ContinueFamily,
    GooseFamily,
    OpencodeFamily,
    ZedFamily,
)
from patchbay.client.applications.json_text import JsonText
from patchbay.client.applications.references import Syntax
from patchbay.client.applications.toml_text import TomlText
from patchbay.client.applications.yaml_text import YamlText
from patchbay.errors import ConfigError
from patchbay.suggestions import describe_unknown_name


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

    `file` is written and read; `others` are more files of the user that are read, those that exist. `project` is the
    file of a project that is written and read, `project_others` are patterns of more ones. `inner` is the member of the
    section that has the servers in newer files. `folder` is in the home of each user of the client, `/` for the folder
    of `file`.
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
    others: Callable[[Machine], Sequence[Path]] = lambda machine: ()
    project_others: tuple[str, ...] = ()
    inner: str = ""
    folder: str = "/"

    def is_found(self, machine: Machine) -> bool:
        """Whether the client seems to be installed: its folder is in the home of the user, or else its file."""
        return self.evidence(machine).exists()

    def evidence(self, machine: Machine) -> Path:
        """Return the folder that shows that the client is installed; its file, if that is directly in the home."""
        file = self.file(machine)
        folder = file.parent if self.folder == "/" else machine.home / self.folder
        return folder if folder != machine.home else file


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


def _cline(machine: Machine) -> Path:
    data = machine.from_variable("CLINE_DIR", machine.home / ".cline") / "data"
    settings = machine.from_variable("CLINE_DATA_DIR", data) / "settings" / "cline_mcp_settings.json"
    return machine.from_variable("CLINE_MCP_SETTINGS_PATH", settings)


def _older_cline(machine: Machine) -> Sequence[Path]:
    """The file of the extension of VS Code, from which Cline moves the servers at its next start."""
    storage = _vscode(machine).parent / "globalStorage" / "saoudrizwan.claude-dev"
    return [storage / "settings" / "cline_mcp_settings.json"]


def _opencode(machine: Machine) -> Path:
    """The first file that exists, else the one of the documentation. opencode has it below .config everywhere."""
    files = _opencode_files(machine)
    return next((file for file in files if file.exists()), files[0])


def _opencode_files(machine: Machine) -> list[Path]:
    given = machine.environ.get("XDG_CONFIG_HOME", "")
    folder = (Path(given) if given.startswith("/") else machine.home / ".config") / "opencode"
    return [folder / "opencode.json", folder / "opencode.jsonc", folder / "config.json"]


def _continue(machine: Machine) -> Path:
    return machine.from_variable("CONTINUE_GLOBAL_DIR", machine.home / ".continue") / "mcpServers" / "patchbay.json"


def _continue_files(machine: Machine) -> Sequence[Path]:
    folder = _continue(machine).parent
    return [folder.parent / "config.yaml", *(file for suffix in _BLOCKS for file in sorted(folder.glob(suffix)))]


_BLOCKS = ("*.json", "*.yaml", "*.yml")
"""The files of servers that Continue reads in a folder `mcpServers`."""

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
        Family(),
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
        Family(kind="http", stdio_kind="stdio"),
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
        Family(url_keys=("serverUrl",)),
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
        CodexFamily(seconds=("tool_timeout_sec", 1.0)),
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
        Family(url_keys=("httpUrl",), seconds=("timeout", 0.001)),
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
    Application(
        "cline",
        "Cline",
        "mcpServers",
        JsonText(),
        ClineFamily(kind="streamableHttp", stdio_kind="stdio", seconds=("timeout", 1.0)),
        _cline,
        "~/.cline/data/settings/cline_mcp_settings.json",
        "https://docs.cline.bot/mcp/configuring-mcp-servers",
        syntax="named",
        after="Cline reads the file at once; if the server is missing, restart Cline",
        others=_older_cline,
        folder=".cline",
    ),
    Application(
        "kiro",
        "Kiro",
        "mcpServers",
        JsonText(),
        Family(seconds=("timeout", 0.001)),
        lambda machine: machine.home / ".kiro" / "settings" / "mcp.json",
        "~/.kiro/settings/mcp.json",
        "https://kiro.dev/docs/mcp/configuration",
        project=".kiro/settings/mcp.json",
        syntax="shell",
        reference="${{{}}}",
        after="Kiro reads the file at once; it asks before it uses a variable",
        folder=".kiro",
    ),
    Application(
        "copilot-cli",
        "Copilot CLI",
        "mcpServers",
        JsonText(),
        Family(kind="http", stdio_kind="local", seconds=("timeout", 0.001), include="tools", extra={"tools": ["*"]}),
        lambda machine: machine.from_variable("COPILOT_HOME", machine.home / ".copilot") / "mcp-config.json",
        "~/.copilot/mcp-config.json",
        "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        project=".github/mcp.json",
        syntax="dollar",
        reference="${{{}}}",
        after="Start a new session of Copilot CLI",
        project_others=(".mcp.json",),
    ),
    Application(
        "opencode",
        "opencode",
        "mcp",
        JsonText(),
        OpencodeFamily(kind="remote", stdio_kind="local", seconds=("timeout", 0.001)),
        _opencode,
        "~/.config/opencode/opencode.json",
        "https://opencode.ai/docs/mcp-servers",
        project="opencode.json",
        syntax="braces",
        reference="{{env:{}}}",
        after="Start opencode again",
        others=_opencode_files,
        project_others=("opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        inner="servers",
    ),
    Application(
        "continue",
        "Continue",
        "mcpServers",
        JsonText(),
        ContinueFamily(kind="http", stdio_kind="stdio"),
        _continue,
        "~/.continue/mcpServers/patchbay.json",
        "https://docs.continue.dev/customize/deep-dives/mcp",
        project=".continue/mcpServers/patchbay.json",
        syntax="secrets",
        after="Continue reads the folder at once; servers are used in agent mode",
        others=_continue_files,
        project_others=tuple(f".continue/mcpServers/{one}" for one in _BLOCKS),
        folder=".continue",
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
