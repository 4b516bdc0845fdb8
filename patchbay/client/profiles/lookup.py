"""Profiles: their folders, the order of search, and overlays.

The order is: the project's `.jn/profiles/mcp`, the user's `~/.local/jn/profiles/mcp`, the bundled
`$JN_HOME/profiles/mcp`. The first directory with `{server}/_meta.json` is the profile. Tool files of `{server}/` in an
earlier directory, which has no `_meta.json` of its own, are overlays: their fields replace those of the profile's
tools, `describe` names them, and they cannot say how the server is started. Later directories add nothing. The caller
passes the environment and the project's directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.files import (
    check_name,
    delete_profile,
    list_tool_files,
    list_versions,
    lock_directory,
    read_json,
    restore_deleted,
    restore_version,
    write_profile,
)
from patchbay.client.profiles.layouts import (
    LAUNCH_FIELDS,
    META_STEM,
    Profile,
    format_files,
    get_target,
    get_tool_name,
    parse_profile,
    parse_tool,
)
from patchbay.suggestions import find_similar_names

PRESETS_FILE = "mcp-launchers.json"


@dataclass(frozen=True, slots=True)
class ProfileHomes:
    """The three folders with profiles, each None when it does not exist.

    A folder has `{home}/profiles/{plugin}` and `{home}/mcp-launchers.json`.
    """

    project: Path | None
    user: Path | None
    bundled: Path | None

    def list_existing(self) -> list[Path]:
        """List the folders that are set, in the order of search."""
        return [home for home in (self.project, self.user, self.bundled) if home is not None]


def find_homes(project: Path, environ: Mapping[str, str]) -> ProfileHomes:
    """Find the folders for a project's directory and an environment (`HOME`, `JN_HOME`)."""
    home, bundled = environ.get("HOME"), environ.get("JN_HOME")
    return ProfileHomes(
        project / ".jn", Path(home) / ".local" / "jn" if home else None, Path(bundled) if bundled else None
    )


def find_profile_paths(places: ProfileHomes, plugin: str = "mcp") -> list[Path]:
    """List the profile directories that exist, in the order of search."""
    return [path for home in places.list_existing() if (path := home / "profiles" / plugin).is_dir()]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile of a list. `place` is project, user or bundled; `problem` says why the profile cannot be read."""

    name: str
    place: str
    directory: Path
    tools: int
    minimal: bool
    description: str
    problem: str = ""


class Profiles:
    """The profiles of one plugin. Reads the files at each call. Safe for many threads."""

    def __init__(
        self, places: ProfileHomes, plugin: str = "mcp", list_servers: Callable[[], Collection[str]] | None = None
    ) -> None:
        """`list_servers` returns the names of the servers of this hub, or None when they are not known."""
        self._homes = places
        self._plugin = plugin
        self._list_servers = list_servers

    def load(self, name: str) -> Profile:
        """Load the profile of this name, with its overlays. Raises ProfileError naming the directories searched."""
        check_name(name)
        before: list[Path] = []
        for root in find_profile_paths(self._homes, self._plugin):
            directory = root / name
            if (directory / f"{META_STEM}.json").is_file():
                with lock_directory(directory, alone=False):
                    found = _read_profile(name, directory)
                return _apply_overlays(found, before)
            before.append(directory)
        raise ProfileError(f"@{name}", "", self._describe_unknown(name))

    def _describe_unknown(self, name: str) -> str:
        """Say that there is no profile of this name; a server of this hub with this name, or a similar one, comes
        first.
        """
        servers = list(self._list_servers()) if self._list_servers is not None else None
        if servers is not None and name in servers:
            return f"{name} is a server of this hub, not a profile: write {name}"
        said = f"MCP server profile not found: {name}; searched {self.describe_searched()}"
        if servers is None:
            return f"{said}; `patchbay profile list` shows all, and a server of this hub is /mcp/{name}"
        similar = [f"@{one}" for one in find_similar_names(name, list(self.find_directories()))]
        similar += find_similar_names(name, servers)
        if similar:
            return f"there is no server and no profile {name}; did you mean {' or '.join(similar)}?"
        return f"{said}; `patchbay profile list` shows the profiles, `patchbay list` the servers of this hub"

    def find_directories(self) -> dict[str, Path]:
        """Find every profile and its directory, sorted by name."""
        found: dict[str, Path] = {}
        for root in find_profile_paths(self._homes, self._plugin):
            for path in root.glob(f"*/{META_STEM}.json"):
                if not path.parent.name.startswith("."):
                    found.setdefault(path.parent.name, path.parent)
        return dict(sorted(found.items()))

    def list_rows(self) -> Sequence[ProfileRow]:
        """List every profile; a profile that cannot be read is listed with its problem."""
        return [self._make_row(name, directory) for name, directory in self.find_directories().items()]

    def _make_row(self, name: str, directory: Path) -> ProfileRow:
        try:
            found = self.load(name)
        except ProfileError as problem:
            return ProfileRow(name, self._get_place(directory), directory, 0, False, "", problem.message)
        text = str(found.fields.get("description", ""))
        return ProfileRow(name, self._get_place(directory), directory, len(found.tools), found.is_minimal, text)

    def describe(self, name: str) -> dict[str, Any]:
        """Describe a profile without asking its server; secrets are masked."""
        found = self.load(name)
        directory = found.directory or Path()
        target = get_target(found, None).label if found.plugin == "mcp" else sorted(found.launch)
        return {
            "name": name,
            "plugin": found.plugin,
            "place": self._get_place(directory),
            "directory": str(directory),
            "overlays": [str(path) for path in found.overlays],
            "reach": target,
            "minimal": found.is_minimal,
            "tools": sorted(found.tools),
            "versions": [path.name for path in list_versions(directory)],
            **found.fields,
        }

    def list_server_tools(self, name: str) -> Sequence[str]:
        """List the tools that a profile has a file or a row for, sorted by name."""
        return sorted(self.load(name).tools)

    def save(self, profile: Profile, examples: bool | None = None, project: bool = False) -> Path:
        """Write a profile in canonical form, keep the previous version, and return the profile's directory.

        Writes to the user's directory, or with `project` to the project's. `examples`: True writes those of the
        profile, False leaves them out, None writes those of tools whose files have examples already. Raises
        ProfileError; nothing is changed then.
        """
        directory = self.find_new(profile.name, project)
        files, _ = self._format(profile, directory, examples)
        write_profile(directory, files)
        return directory

    def preview(self, profile: Profile, project: bool = False) -> Profile:
        """Return a profile as it would be read after `save`, and write nothing. Raises ProfileError."""
        return self._format(profile, self.find_new(profile.name, project), None)[1]

    def find_new(self, name: str, project: bool) -> Path:
        """Return the directory of a new profile. Raises ProfileError for a name that no profile can have."""
        home = self._homes.project if project else self._homes.user
        if home is None:
            raise ProfileError(name, "", "expected HOME to be set, for the user's directory of profiles")
        return home / "profiles" / self._plugin / check_name(name)

    def _format(
        self, profile: Profile, directory: Path, examples: bool | None
    ) -> tuple[dict[str, dict[str, Any]], Profile]:
        """Return the files of a profile in this directory, and the profile as it is read from them."""
        had = self._list_tools_with_examples(directory) if examples is None else set(profile.tools if examples else ())
        tools = {name: _remove_examples(tool, name in had) for name, tool in profile.tools.items()}
        files = dict(format_files(replace(profile, tools=tools)))
        contents = {get_tool_name(file[:-5]): value for file, value in files.items() if file != f"{META_STEM}.json"}
        found = parse_profile(profile.name, files[f"{META_STEM}.json"], contents, str(directory))
        return files, replace(found, directory=directory)

    def _list_tools_with_examples(self, directory: Path) -> set[str]:
        if not (directory / f"{META_STEM}.json").is_file():
            return set()
        tools = _read_profile(directory.name, directory).tools
        return {name for name, tool in tools.items() if "examples" in tool}

    def restore(self, name: str, stamp: str = "") -> Path:
        """Bring back an old version of a profile (without `stamp` the newest), or a deleted profile.

        The present files of the profile become a version; they need not be valid. Returns the directory. Raises
        ProfileError, with the versions that exist when none is `stamp`.
        """
        directory = self.find_directories().get(check_name(name))
        if directory is None:
            roots = find_profile_paths(self._homes, self._plugin)
            restored = next((path for root in roots if (path := restore_deleted(root, name))), None)
            if restored is None:
                raise ProfileError(f"@{name}", "", "there is no profile and no deleted profile of this name")
            return restored
        versions = {path.name: path for path in list_versions(directory)}
        version = versions.get(stamp) if stamp else next(iter(versions.values()), None)
        if version is None:
            raise ProfileError(f"@{name}", "", f"no version {stamp!r}; it has {', '.join(versions) or 'none'}")
        restore_version(self._check_writable(directory), version)
        return directory

    def delete(self, name: str) -> Path:
        """Remove a profile of the project or the user, and return the path where it is kept. Raises ProfileError."""
        return delete_profile(self._check_writable(self._find_directory(name)))

    def _check_writable(self, directory: Path) -> Path:
        if self._get_place(directory) == "bundled":
            raise ProfileError(
                str(directory), "", "this profile is bundled ($JN_HOME); expected one of the project or user"
            )
        return directory

    def describe_searched(self) -> str:
        """Return the folders in which profiles are searched, also those that do not exist yet."""
        return ", ".join(str(home / "profiles" / self._plugin) for home in self._homes.list_existing())

    def load_presets(self) -> tuple[dict[str, Any], str]:
        """Load the launches of `mcp://name`: rows by name, an earlier folder first, and the names of the files."""
        rows: dict[str, Any] = {}
        files = [path for home in self._homes.list_existing() if (path := home / PRESETS_FILE).is_file()]
        for path in files:
            value = read_json(path)
            if not isinstance(value, dict):
                raise ProfileError(str(path), "", "expected an object of launches by name")
            rows = {**value, **rows}
        searched = files or [home / PRESETS_FILE for home in self._homes.list_existing()]
        return rows, ", ".join(str(path) for path in searched)

    def _find_directory(self, name: str) -> Path:
        """Find the directory of a profile, valid or not. Raises ProfileError naming the directories searched."""
        return self.find_directories().get(check_name(name)) or self.load(name).directory or Path()

    def _get_place(self, directory: Path) -> str:
        for place in ("project", "user", "bundled"):
            home: Path | None = getattr(self._homes, place)
            if home is not None and directory.is_relative_to(home / "profiles"):
                return place
        return ""


def _read_profile(name: str, directory: Path) -> Profile:
    tools = {get_tool_name(path.stem): read_json(path) for path in list_tool_files(directory)}
    found = parse_profile(name, read_json(directory / f"{META_STEM}.json"), tools, str(directory))
    return replace(found, directory=directory)


def _apply_overlays(profile: Profile, before: Sequence[Path]) -> Profile:
    """Apply the tool files of earlier directories to a profile; the first directory wins."""
    tools = dict(profile.tools)
    overlays = [path for directory in reversed(before) for path in list_tool_files(directory)]
    for path in overlays:
        name = get_tool_name(path.stem)
        tool = parse_tool(name, read_json(path), str(path), "")
        launch = sorted(set(tool) & set(LAUNCH_FIELDS))
        if launch:
            raise ProfileError(
                str(path),
                launch[0],
                f"an overlay may not say how to connect to a server; expected a {META_STEM}.json beside it",
            )
        tools[name] = {**tools.get(name, {}), **tool}
    return replace(profile, tools=dict(sorted(tools.items())), overlays=tuple(overlays))


def _remove_examples(tool: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if keep or key != "examples"}
