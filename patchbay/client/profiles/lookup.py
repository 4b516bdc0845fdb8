"""Profiles: where they are kept, in which order they are looked for, and what may lie over what.

Order: the project's `.jn/profiles/mcp`, the user's `~/.local/jn/profiles/mcp`, the bundled `$JN_HOME/profiles/mcp`.
The first directory whose `{server}/_meta.json` exists is the profile. Tool files of `{server}/` in a directory before
that one, which has no `_meta.json` of its own, are overlays: laid over the tools, field by field, named in `info`, and
never able to say how the server is started. Directories after it add nothing. The environment and the project's
directory are handed in. Sources: JN-7, JN-13 to JN-17, JN-58, JN-61, JN-62, JN-69, J-F2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.files import (
    checked_name,
    delete_profile,
    locked,
    read_json,
    tool_paths,
    versions_of,
    write_profile,
)
from patchbay.client.profiles.layouts import (
    LAUNCH,
    META,
    Profile,
    canonical_files,
    profile_from,
    reach_of,
    tool_from,
    tool_named,
)

PRESETS = "mcp-launchers.json"


@dataclass(frozen=True, slots=True)
class Homes:
    """The three places, each None when there is none: `{place}/profiles/{plugin}` and `{place}/mcp-launchers.json`."""

    project: Path | None
    user: Path | None
    bundled: Path | None

    def existing(self) -> list[Path]:
        """The places in their order."""
        return [home for home in (self.project, self.user, self.bundled) if home is not None]


def homes(project: Path, environ: Mapping[str, str]) -> Homes:
    """The places for a project's directory and an environment (`HOME`, `JN_HOME`)."""
    home, bundled = environ.get("HOME"), environ.get("JN_HOME")
    return Homes(project / ".jn", Path(home) / ".local" / "jn" if home else None, Path(bundled) if bundled else None)


def find_profile_paths(places: Homes, plugin: str = "mcp") -> list[Path]:
    """The profile directories that exist, in the order in which they are searched (JN-14)."""
    return [path for home in places.existing() if (path := home / "profiles" / plugin).is_dir()]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile of a list: `place` is project, user or bundled; `problem` says why it cannot be read."""

    name: str
    place: str
    directory: Path
    tools: int
    minimal: bool
    description: str
    problem: str = ""


class Profiles:
    """The profiles of one plugin. Reads what is there at each call; keeps nothing. Safe for many threads."""

    def __init__(self, places: Homes, plugin: str = "mcp") -> None:
        self._places = places
        self._plugin = plugin

    def load(self, name: str) -> Profile:
        """The profile of this name, overlays included. Raises ProfileError naming the directories searched."""
        checked_name(name)
        before: list[Path] = []
        for root in find_profile_paths(self._places, self._plugin):
            directory = root / name
            if (directory / f"{META}.json").is_file():
                with locked(directory, alone=False):
                    found = _read(name, directory)
                return _overlaid(found, before)
            before.append(directory)
        raise ProfileError(f"@{name}", "", f"MCP server profile not found: {name}; searched {self._searched()}")

    def names(self) -> dict[str, Path]:
        """Every profile and the directory it comes from, sorted by name."""
        found: dict[str, Path] = {}
        for root in find_profile_paths(self._places, self._plugin):
            for path in root.glob(f"*/{META}.json"):
                if not path.parent.name.startswith("."):
                    found.setdefault(path.parent.name, path.parent)
        return dict(sorted(found.items()))

    def list(self) -> Sequence[ProfileRow]:
        """Every profile; one that cannot be read is listed with its problem (JN-61)."""
        return [self._row(name, directory) for name, directory in self.names().items()]

    def _row(self, name: str, directory: Path) -> ProfileRow:
        try:
            found = self.load(name)
        except ProfileError as problem:
            return ProfileRow(name, self._place(directory), directory, 0, False, "", problem.message)
        text = str(found.fields.get("description", ""))
        return ProfileRow(name, self._place(directory), directory, len(found.tools), found.minimal, text)

    def info(self, name: str) -> dict[str, Any]:
        """What there is to know about a profile without asking its server (JN-62); secrets are masked."""
        found = self.load(name)
        directory = found.directory or Path()
        reach = reach_of(found, None).described if found.plugin == "mcp" else sorted(found.launch)
        return {
            "name": name,
            "plugin": found.plugin,
            "place": self._place(directory),
            "directory": str(directory),
            "overlays": [str(path) for path in found.overlays],
            "reach": reach,
            "minimal": found.minimal,
            "tools": sorted(found.tools),
            "versions": [path.name for path in versions_of(directory)],
            **found.fields,
        }

    def list_server_tools(self, name: str) -> Sequence[str]:
        """The tools a profile has something to say about, sorted; never `_meta` (JN-17)."""
        return sorted(self.load(name).tools)

    def save(self, profile: Profile, examples: bool | None = None, project: bool = False) -> Path:
        """Write a profile in canonical form, atomically, the version before kept; answers its directory.

        Into the user's directory (JN-58), or the project's. `examples`: True writes those of the profile, False none,
        None those of tools whose files have some already (JN-52). Raises ProfileError; nothing is changed then.
        """
        home = self._places.project if project else self._places.user
        if home is None:
            raise ProfileError(profile.name, "", "expected HOME to be set, for the user's directory of profiles")
        directory = home / "profiles" / profile.plugin / checked_name(profile.name)
        had = self._with_examples(directory) if examples is None else set(profile.tools if examples else ())
        tools = {name: _without_examples(tool, name in had) for name, tool in profile.tools.items()}
        files = dict(canonical_files(replace(profile, tools=tools)))
        contents = {tool_named(file[:-5]): value for file, value in files.items() if file != f"{META}.json"}
        profile_from(profile.name, files[f"{META}.json"], contents, str(directory))
        write_profile(directory, files)
        return directory

    def _with_examples(self, directory: Path) -> set[str]:
        if not (directory / f"{META}.json").is_file():
            return set()
        tools = _read(directory.name, directory).tools
        return {name for name, tool in tools.items() if "examples" in tool}

    def versions(self, name: str) -> Sequence[str]:
        """The old versions of a profile, newest first."""
        return [path.name for path in versions_of(self._directory(name))]

    def version(self, name: str, stamp: str) -> Profile:
        """One old version of a profile. Raises ProfileError with the versions there are."""
        directory = self._directory(name)
        if stamp not in self.versions(name):
            raise ProfileError(
                f"@{name}", "", f"no version {stamp!r}; it has {', '.join(self.versions(name)) or 'none'}"
            )
        return _read(name, directory / ".versions" / stamp)

    def delete(self, name: str) -> Path:
        """Take a profile of the project or the user away; answers where it is kept. Raises ProfileError."""
        directory = self._directory(name)
        if self._place(directory) == "bundled":
            raise ProfileError(
                str(directory), "", "this profile is bundled ($JN_HOME); expected one of the project or user"
            )
        return delete_profile(directory)

    def presets(self) -> tuple[dict[str, Any], str]:
        """The launches of `mcp://name`: rows by name, those of an earlier place first, and where they were read."""
        rows: dict[str, Any] = {}
        files = [path for home in self._places.existing() if (path := home / PRESETS).is_file()]
        for path in files:
            value = read_json(path)
            if not isinstance(value, dict):
                raise ProfileError(str(path), "", "expected an object of launches by name")
            rows = {**value, **rows}
        searched = files or [home / PRESETS for home in self._places.existing()]
        return rows, ", ".join(str(path) for path in searched)

    def _directory(self, name: str) -> Path:
        return self.load(name).directory or Path()

    def _place(self, directory: Path) -> str:
        for place in ("project", "user", "bundled"):
            home: Path | None = getattr(self._places, place)
            if home is not None and directory.is_relative_to(home / "profiles"):
                return place
        return ""

    def _searched(self) -> str:
        return ", ".join(str(home / "profiles" / self._plugin) for home in self._places.existing())


def _read(name: str, directory: Path) -> Profile:
    tools = {tool_named(path.stem): read_json(path) for path in tool_paths(directory)}
    found = profile_from(name, read_json(directory / f"{META}.json"), tools, str(directory))
    return replace(found, directory=directory)


def _overlaid(profile: Profile, before: Sequence[Path]) -> Profile:
    """The profile with the tool files of the directories before its own, the first of them on top (J-F2)."""
    tools = dict(profile.tools)
    overlays = [path for directory in reversed(before) for path in tool_paths(directory)]
    for path in overlays:
        name = tool_named(path.stem)
        tool = tool_from(name, read_json(path), str(path), "")
        launch = sorted(set(tool) & set(LAUNCH))
        if launch:
            raise ProfileError(
                str(path),
                launch[0],
                f"an overlay may not say how a server is reached; expected a {META}.json beside it",
            )
        tools[name] = {**tools.get(name, {}), **tool}
    return replace(profile, tools=dict(sorted(tools.items())), overlays=tuple(overlays))


def _without_examples(tool: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if keep or key != "examples"}
