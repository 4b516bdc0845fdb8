"""Reads what the applications of this machine have configured: every server, with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import Http, Stdio
from patchbay.client.applications.applications import APPLICATIONS, Application, Machine
from patchbay.client.applications.changes import Place
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.references import Inexpressible, References
from patchbay.errors import ConfigError
from patchbay.settings import is_loopback


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of an application. `project` is the folder of a project's file, None for the user's own file."""

    application: Application
    path: Path
    project: Path | None = None

    @property
    def place(self) -> Place:
        """The servers of the file."""
        return Place(self.path, self.application.form, self.application.section)


def list_files(application: Application, machine: Machine, project: Path) -> list[ClientFile]:
    """List the files that an application may have: the user's own, and that of the project in a folder."""
    found = [ClientFile(application, application.file(machine))]
    if application.project and project / application.project != found[0].path:
        found.append(ClientFile(application, project / application.project, project))
    return found


def guess_file(path: Path, machine: Machine) -> ClientFile:
    """Return any file as that of the application whose path or form it has. Raises ConfigError."""
    path = path.absolute()
    for row in APPLICATIONS.values():
        if path == row.file(machine):
            return ClientFile(row, path)
    for row in APPLICATIONS.values():
        own = Path(row.project).parts
        if own and path.parts[-len(own) :] == own:
            return ClientFile(row, path, Path(*path.parts[: -len(own)]))
    for row in APPLICATIONS.values():
        if path.parts[-2:] == row.file(machine).parts[-2:]:
            return ClientFile(row, path)
    by_form = [
        row for row in APPLICATIONS.values() if Path(row.shown).suffix == _SUFFIXES.get(path.suffix, path.suffix)
    ]
    for row in sorted(by_form, key=lambda row: row.file(machine).name != path.name):
        candidate = ClientFile(row, path)
        if candidate.place.servers():
            return candidate
    raise ConfigError(str(path), "", f"expected servers in the form of one of {', '.join(APPLICATIONS)}; found none")


_SUFFIXES = {".jsonc": ".json", ".yml": ".yaml"}


def read_entries(file: ClientFile, machine: Machine) -> list[Entry]:
    """Return the servers of a file; an empty list when there is no such file.

    Raises ConfigError for a file that cannot be read, with line and column.
    """
    application, data = file.application, file.place.read()
    if data is None:
        return []
    whole = _parse(file, data)
    found = [
        _read_entry(file, machine, name, value, str(file.path), file.project)
        for name, value in _servers(whole, application.section, file).items()
    ]
    if application.name == "claude-code" and file.project is None:
        found += list(_read_projects(file, machine, whole))
    return _without_excluded(found, whole) if application.name == "gemini" else found


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
        return file.application.form.parse(file.place.decode(data)[1])
    except ValueError as problem:
        raise ConfigError(str(file.path), "", str(problem)) from problem


def _servers(whole: Mapping[str, Any], section: str, file: ClientFile) -> Mapping[str, Any]:
    found = whole.get(section)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(str(file.path), section, "expected an object with the servers by name")
    return found


def _read_entry(file: ClientFile, machine: Machine, name: str, value: Any, place: str, project: Path | None) -> Entry:
    references = References(file.application.syntax, machine.home, project)
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


def _without_excluded(entries: list[Entry], whole: Mapping[str, Any]) -> list[Entry]:
    """Mark what Gemini CLI excludes, or does not allow, as switched off."""
    rules = whole.get("mcp")
    excluded = rules.get("excluded") or [] if isinstance(rules, Mapping) else []
    allowed = rules.get("allowed") if isinstance(rules, Mapping) else None
    return [
        replace(entry, enabled=entry.enabled and entry.name not in excluded and (not allowed or entry.name in allowed))
        for entry in entries
    ]
