"""Reads what the applications of this machine have configured: every server, with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import Http, Stdio
from patchbay.client.applications.applications import APPLICATIONS, Application, Machine
from patchbay.client.applications.changes import ServersFile
from patchbay.client.applications.edits import Format, find_section
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.json_text import JsonText
from patchbay.client.applications.members import SANDBOXED
from patchbay.client.applications.references import Inexpressible, References, Syntax
from patchbay.client.applications.toml_text import TomlText
from patchbay.client.applications.yaml_text import YamlText
from patchbay.errors import ConfigError
from patchbay.hosts.names import is_loopback


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of an application. `project` is the folder of a project's file, None for the user's own file."""

    application: Application
    path: Path
    project: Path | None = None

    @property
    def form(self) -> Format:
        """The format: that of the file's name, else that of the application."""
        return _FORMS.get(self.path.suffix.lower()) or self.application.form

    @property
    def place(self) -> ServersFile:
        """The servers of the file, in the section where it has them."""
        application = self.application
        if application.inner and self.path.is_file():
            inner = f"{application.section}.{application.inner}"
            found = find_section(_parse(self, ServersFile(self.path, self.form, "").read() or b""), inner)
            if _is_section(found):
                return ServersFile(self.path, self.form, inner)
        return ServersFile(self.path, self.form, application.section)


_FORMS: Mapping[str, Format] = {
    **dict.fromkeys((".json", ".jsonc"), JsonText()),
    **dict.fromkeys((".yaml", ".yml"), YamlText()),
    ".toml": TomlText(),
}


def list_files(application: Application, machine: Machine, project: Path) -> list[ClientFile]:
    """List the files that an application may have: the user's own ones, and those of the project in a folder.

    The file that is written is the first one of its group; other files are listed if they exist.
    """
    own = application.file(machine)
    found = [ClientFile(application, own)]
    found += [ClientFile(application, path) for path in application.others(machine) if path != own and path.is_file()]
    if not application.project:
        return found
    written = project / application.project
    others = [path for pattern in application.project_others for path in sorted(project.glob(pattern))]
    paths = [written, *(path for path in others if path != written and path.is_file())]
    known = {one.path for one in found}
    return found + [ClientFile(application, path, project) for path in paths if path not in known]


@dataclass(frozen=True, slots=True)
class Guess:
    """A file as that of an application. `is_certain` says that its place or its name belongs to this application."""

    file: ClientFile
    is_certain: bool


def guess_file(path: Path, machine: Machine) -> Guess:
    """Return any file as that of the application whose path or form it has. Raises ConfigError."""
    path = path.absolute()
    rows = list(APPLICATIONS.values())
    own = [ClientFile(row, path) for row in rows if path == row.file(machine) or path in row.others(machine)]
    of_projects = [found for found in (client_file(path, row) for row in rows) if found.project is not None]
    in_folders = [found for found in of_projects if found.project != path.parent]
    copies = [ClientFile(row, path) for row in rows if path.parts[-2:] == row.file(machine).parts[-2:]]
    certain = next(iter([*own, *in_folders, *copies, *of_projects]), None)
    if certain is not None:
        return Guess(certain, True)
    by_form = [row for row in rows if type(_FORMS.get(path.suffix)) in (type(row.form), _of_lists(row))]
    for row in sorted(by_form, key=lambda row: row.file(machine).name != path.name):
        candidate = ClientFile(row, path)
        if read_entries(candidate, machine):
            return Guess(candidate, False)
    names = ", ".join(APPLICATIONS)
    raise ConfigError(str(path), "", f"expected servers in the form of one of {names}; found none")


def client_file(path: Path, application: Application) -> ClientFile:
    """Return any file as that of an application; as a project's file when its path ends like that of one."""
    path = path.absolute()
    for pattern in filter(None, (application.project, *application.project_others)):
        depth = len(Path(pattern).parts)
        if path.match(pattern) and len(path.parts) > depth:
            return ClientFile(application, path, path.parents[depth - 1])
    return ClientFile(application, path)


def _of_lists(row: Application) -> type | None:
    """Return the format of files with a list of servers, which Continue has beside its own format."""
    return YamlText if row.syntax == "secrets" else None


def read_entries(file: ClientFile, machine: Machine) -> list[Entry]:
    """Return the servers of a file; an empty list when there is no such file.

    Raises ConfigError for a file that cannot be read, with line and column.
    """
    application, data = file.application, ServersFile(file.path, file.form, "").read()
    if data is None:
        return []
    whole = _parse(file, data)
    found = [
        _read_entry(file, machine, name, value, str(file.path), file.project) for name, value in _servers(whole, file)
    ]
    if application.name == "claude-code" and file.project is None:
        found += list(_read_projects(file, machine, whole))
    return _with_rules_of_gemini(found, whole) if application.name == "gemini" else found


def is_own(target: Stdio | Http | None, port: int | None = None) -> bool:
    """Whether a target is a hub on this machine: the path `/mcp` at this port, or the program `patchbay stdio`.

    Without `port`, every port of this machine counts.
    """
    if isinstance(target, Http):
        parts = urlsplit(target.url)
        is_here = is_loopback(parts.hostname or "") and port in (None, parts.port or 80)
        return is_here and (parts.path == "/mcp" or parts.path.startswith("/mcp/"))
    if isinstance(target, Stdio):
        words = (Path(target.command).name, *target.args)
        return any(words[at : at + 2] == ("patchbay", "stdio") for at in range(len(words)))
    return False


def _parse(file: ClientFile, data: bytes) -> dict[str, Any]:
    try:
        return file.form.parse(ServersFile(file.path, file.form, "").decode(data)[1])
    except ValueError as problem:
        raise ConfigError(str(file.path), "", str(problem)) from problem


def _servers(whole: Mapping[str, Any], file: ClientFile) -> list[tuple[str, Any]]:
    """Return the servers of a file by name. A list of servers, as in Continue's files, has the names in them."""
    application = file.application
    found = whole.get(application.section)
    if found is None:
        return []
    if isinstance(found, list):
        return [(_name_in(value) or f"server-{number}", value) for number, value in enumerate(found, 1)]
    if not isinstance(found, Mapping):
        raise ConfigError(str(file.path), application.section, "expected an object with the servers by name")
    inner = found.get(application.inner) if application.inner else None
    if not isinstance(inner, Mapping) or not _is_section(inner):
        return list(found.items())
    settings = (application.inner, "timeout")
    return [*inner.items(), *((name, value) for name, value in found.items() if name not in settings)]


def _name_in(value: Any) -> str:
    name = value.get("name") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) else ""


def _is_section(value: Any) -> bool:
    """Whether a value holds servers by name, and is not one server."""
    return isinstance(value, Mapping) and not isinstance(value.get("type"), str)


def _read_entry(file: ClientFile, machine: Machine, name: str, value: Any, place: str, project: Path | None) -> Entry:
    is_json = file.path.suffix == ".json"
    syntax: Syntax = "shell" if file.application.syntax == "secrets" and is_json else file.application.syntax
    references = References(syntax, machine.home, project)
    try:
        if not isinstance(value, Mapping):
            raise Inexpressible("expected an object")
        return replace(file.application.family.read(name, value, references), place=place)
    except Inexpressible as problem:
        return Entry(name, None, problem=str(problem), place=place)


def _read_projects(file: ClientFile, machine: Machine, whole: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield what Claude Code has configured for single projects, in its own file (scope local)."""
    projects = whole.get("projects")
    for folder, state in projects.items() if isinstance(projects, Mapping) else ():
        servers = state.get("mcpServers") if isinstance(state, Mapping) else None
        off = state.get("disabledMcpServers", []) if isinstance(state, Mapping) else []
        for name, value in servers.items() if isinstance(servers, Mapping) else ():
            entry = _read_entry(file, machine, name, value, f"{file.path}: {folder}", Path(folder))
            yield replace(entry, enabled=entry.enabled and name not in off)


def _with_rules_of_gemini(entries: list[Entry], whole: Mapping[str, Any]) -> list[Entry]:
    """Mark what Gemini CLI excludes, or does not allow, as switched off; refuse what it runs in its sandbox."""
    allowed, excluded = rules_of_gemini(whole)
    tools = whole.get("tools")
    sandboxed = whole.get("sandbox") or (tools.get("sandbox") if isinstance(tools, Mapping) else None)
    if isinstance(sandboxed, Mapping):
        sandboxed = sandboxed.get("enabled", True)
    found = []
    for entry in entries:
        is_on = entry.name not in excluded and (not allowed or entry.name in allowed)
        entry = replace(entry, enabled=entry.enabled and is_on)
        if sandboxed and isinstance(entry.target, Stdio):
            entry = replace(entry, target=None, problem=f"tools.sandbox: {SANDBOXED}")
        found.append(entry)
    return found


def rules_of_gemini(whole: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of servers that Gemini CLI allows (empty for all), and that it excludes."""
    rules = whole.get("mcp")
    given = [rules.get(key) if isinstance(rules, Mapping) else None for key in ("allowed", "excluded")]
    allowed, excluded = ([str(name) for name in one] if isinstance(one, list) else [] for one in given)
    return allowed, excluded
