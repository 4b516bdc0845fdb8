"""Make and change toolsets: which tools they have, how these are called, and what their list would be.

The functions change the fields of a configuration and save nothing. A choice that chooses nothing is an error that
names the nearest name, and the fields stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.catalogue.building.composing import compose_version
from patchbay.catalogue.building.previews import preview
from patchbay.catalogue.servers.server import Server
from patchbay.config import find_errors
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError
from patchbay.kind import CONFIGURATION_KIND
from patchbay.patterns.entries import covers, splits
from patchbay.store import Blobs
from patchbay.suggestions import did_you_mean, find_similar_names
from patchbay.topics import SERVERS

TOOLSET = "toolset"
"""The value of the field `kind` of a toolset, and the kind of the server."""

Fields = dict[str, Any]

Split = Callable[[str], tuple[str, str]]
"""Returns the names of the server and of the entry that `server.entry` means."""

WILDCARDS = frozenset("*?[")
"""The characters that make a pattern of a name."""


@dataclass(frozen=True, slots=True)
class DraftedToolset:
    """A toolset that is not saved: its fields, and the server that it would be, or the reason why it would not be.

    `where` is the place of the fault in the fields, such as `tools.log.result`; empty for one of the whole.
    """

    fields: Mapping[str, Any]
    server: Server | None
    fault: str = ""
    where: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the toolset would not serve, with the reasons."""
        return self.server.problems if self.server is not None else ()

    def problems_of(self, tool: str) -> list[Problem]:
        """Return the problems of one named tool, by its name in the toolset."""
        return [one for one in self.problems if self.find_tool(one.where) == tool]

    def find_tool(self, where: str) -> str | None:
        """Return the named tool that a place is in, such as `log` for `tools.log.result`; None for another place.

        A name may have dots: of several that fit, the longest is meant.
        """
        names = [one for one in self.fields.get("tools", {}) if f"{where}.".startswith(f"tools.{one}.")]
        return max(names, key=len, default=None)


class ToolsetDrafts:
    """Drafts of toolsets, made of the servers of now. `every` returns these by name."""

    def __init__(self, blobs: Blobs, every: Callable[[], Mapping[str, Server]], readonly: bool = False) -> None:
        self._blobs = blobs
        self._every = every
        self._readonly = readonly

    def draft(self, name: str, fields: Mapping[str, Any]) -> DraftedToolset:
        """Return the toolset that these fields would be under a name. It is not served."""
        text = to_text(fields).encode()
        errors = find_errors(text, "the toolset")
        if errors:
            wrong = errors[0]
            return DraftedToolset(fields, None, wrong.expected, wrong.path)
        file = Server(name, "", TOOLSET, origin=f"{SERVERS}{name}.json")  # the operator writes this file
        found = preview(name, CONFIGURATION_KIND, text, self._blobs, file)
        if found.server is None:
            return DraftedToolset(fields, None, found.fault.reason if found.fault is not None else "it is not valid")
        every = {one: server for one, server in self._every().items() if one != name}
        made = compose_version(found.server, every, self._readonly)
        return DraftedToolset(fields, None if made.broken else made, made.broken or "")

    def find_tool(self, origin: str) -> Descriptor | None:
        """Return the tool that `server.tool` names; None for one that is not there."""
        server, name = self.split(origin)
        every = self._every()
        return every[server].tools.get(name) if server in every else None

    def split(self, origin: str) -> tuple[str, str]:
        """Return the names of the server and of the entry that `server.entry` means; both may have dots.

        It is the server that has this tool, else one that is there, else what stands before the first dot.
        """
        every, parts = self._every(), splits(origin)
        known = [one for one in ((origin, ""), *parts) if one[0] in every]
        owner = next((one for one in known if one[1] in every[one[0]].tools), None)
        return owner or next(iter([*known, *parts]), (origin, ""))

    def add(self, name: str, fields: Mapping[str, Any], entries: Iterable[str]) -> DraftedToolset:
        """Choose more tools: patterns such as `git.git_log`, `git.*`, `git`. Raises ConfigError."""
        changed = copy_fields(fields)
        included, excluded = changed.setdefault("include", []), changed.get("exclude", [])
        added = []
        for entry in entries:
            pattern = as_pattern(entry)
            if pattern in excluded:
                excluded.remove(pattern)
            if not _is_chosen(changed, pattern, self.split):
                included.append(pattern)
                added.append(pattern)
        drafted = self.draft(name, _without_empty(changed))
        check_draft(drafted)
        for problem in drafted.problems:
            member, _, number = problem.where.partition(".")
            if member == "include" and number.isdigit() and included[int(number)] in added:
                raise ConfigError(name, "", problem.reason)
        return drafted

    def remove(
        self, name: str, fields: Mapping[str, Any], entries: Iterable[str], tools: Mapping[str, Descriptor]
    ) -> DraftedToolset:
        """Take tools out: names of tools of the toolset, origins, or patterns. Raises ConfigError."""
        changed = copy_fields(fields)
        for entry in entries:
            _take_out(name, changed, entry, tools, self.split)
        if not changed.get("include") and not changed.get("tools"):
            raise ConfigError(name, "", "expected one tool at least: to have none, remove the toolset")
        drafted = self.draft(name, _without_empty(changed))
        check_draft(drafted)
        return drafted

    def add_script(self, name: str, fields: Mapping[str, Any], tool: str, script: str) -> DraftedToolset:
        """Add a script as a tool. Raises ConfigError, with the line for a fault of the script."""
        changed = copy_fields(fields)
        tools = changed.setdefault("tools", {})
        if tool in tools:
            raise ConfigError(name, f"tools.{tool}", "expected another name: a tool of the toolset has this one")
        tools[tool] = {"script": script}
        drafted = self.draft(name, _without_empty(changed))
        check_draft(drafted)
        wrong = drafted.problems_of(tool)
        if wrong:
            raise ConfigError(name, wrong[0].where, describe_problem(wrong[0]))
        return drafted

    def shape(
        self, name: str, fields: Mapping[str, Any], tool: str, tools: Mapping[str, Descriptor], **changes: Any
    ) -> DraftedToolset:
        """Change what one tool shows: `new_name`, `title`, `description`, `arguments`; None leaves, "" takes away.

        `arguments` are merged with those that are there, by name; None as a value takes one away. Raises ConfigError
        for an unknown tool and for what the tool cannot show.
        """
        changed = copy_fields(fields)
        named = _name_tool(name, changed, tool, tools)
        shown = changes.pop("new_name", None) or tool
        if shown != tool:
            if shown in tools or shown in changed["tools"]:
                raise ConfigError(name, f"tools.{shown}", "expected another name: a tool of the toolset has this one")
            changed["tools"] = {shown if key == tool else key: one for key, one in changed["tools"].items()}
        for key, value in changes.items():
            if value is not None and key == "arguments":
                merged = {**named.get("arguments", {}), **value}
                named["arguments"] = {one: said for one, said in merged.items() if said is not None}
            elif value is not None:
                named[key] = value
            if not named.get(key, True):
                del named[key]
        changed["tools"][shown] = named["from"] if named.keys() == {"from"} else named
        drafted = self.draft(name, _without_empty(changed))
        check_draft(drafted)
        wrong = drafted.problems_of(shown)
        if wrong:
            raise ConfigError(name, wrong[0].where, describe_problem(wrong[0]))
        return drafted


def describe_problem(problem: Problem) -> str:
    """Return the reason of a problem, with the line of a script that it is about."""
    return f"{problem.reason} (line {problem.line})" if problem.line is not None else problem.reason


def to_text(fields: Mapping[str, Any]) -> str:
    """Return fields as the text of a file."""
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def copy_fields(fields: Mapping[str, Any]) -> Fields:
    """Return a copy of fields in which everything may be changed."""
    copied: Fields = json.loads(json.dumps(fields))
    return copied


def _without_empty(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value or key not in ("include", "exclude", "tools")}


def as_pattern(entry: str) -> str:
    """Return the pattern that an entry means: `git/git_log` and `/mcp/git/git_log` are addresses of tools."""
    meant = entry.strip().removeprefix("/mcp/").removeprefix("mcp/").strip("/")
    return meant.replace("/", ".", 1) if "/" in meant else meant


def _origin_of(named: Any) -> str:
    """Return the origin of a named tool; "" for a script, which has none."""
    return str(named.get("from", "") if isinstance(named, Mapping) else named)


def _is_chosen(fields: Mapping[str, Any], pattern: str, split: Split) -> bool:
    """Whether the fields choose what a pattern means: by the same pattern, or one tool by a wider one."""
    server, entry = split(pattern)
    is_one = bool(entry) and not any(sign in pattern for sign in WILDCARDS)
    if is_one and any(covers(one, server, entry) for one in fields["include"]):
        return True
    return pattern in fields["include"] or pattern in [_origin_of(one) for one in fields.get("tools", {}).values()]


def _take_out(name: str, fields: Fields, entry: str, tools: Mapping[str, Descriptor], split: Split) -> None:
    """Take one entry out of fields. Raises ConfigError with the nearest names."""
    pattern, own = as_pattern(entry), fields.get("tools", {})
    if entry in own:
        pattern = _origin_of(own.pop(entry))
        if not pattern or not _covered(fields, pattern, split):
            return
    elif pattern in fields.get("include", ()):
        fields["include"].remove(pattern)
        if not any(covers(pattern, *split(origin)) for one in own.values() if (origin := _origin_of(one))):
            return
    origins = {tool: one.origins[0] for tool, one in tools.items() if one.origins}
    names = {tool: f"{one.server}.{one.name}" for tool, one in origins.items()}
    pattern = names.get(entry, pattern)
    named = [tool for tool, one in own.items() if (origin := _origin_of(one)) and covers(pattern, *split(origin))]
    for tool in named:
        del own[tool]
    if pattern in fields.get("include", ()):
        fields["include"].remove(pattern)
    is_listed = any(covers(pattern, one.server, one.name) for one in origins.values())
    if not named and not is_listed:
        close = did_you_mean(find_similar_names(entry, [*tools, *names.values()]))
        raise ConfigError(name, "", f"this toolset has no tool {entry!r:.80}{close}")
    if is_listed and _covered(fields, pattern, split):
        fields["exclude"] = [*fields.get("exclude", ()), pattern]


def _covered(fields: Mapping[str, Any], pattern: str, split: Split) -> bool:
    """Whether an included pattern chooses what another pattern means, or a part of it."""
    server, entry = split(pattern)
    return any(
        covers(one, server, entry) or any(sign in pattern for sign in WILDCARDS) or not entry
        for one in fields.get("include", ())
    )


def _name_tool(name: str, fields: Fields, tool: str, tools: Mapping[str, Descriptor]) -> Fields:
    """Return what the fields say about a tool as an object; an included tool is named from now on."""
    own = fields.setdefault("tools", {})
    if tool in own:
        return {"from": own[tool]} if isinstance(own[tool], str) else dict(own[tool])
    found = tools.get(tool)
    if found is None or not found.origins:
        close = did_you_mean(find_similar_names(tool, [*tools]))
        raise ConfigError(name, "", f"this toolset has no tool {tool!r:.80}{close}")
    named = {"from": f"{found.origins[0].server}.{found.origins[0].name}"}
    if named["from"] in fields.get("include", ()):
        fields["include"].remove(named["from"])
    own[tool] = named
    return named


def check_draft(drafted: DraftedToolset) -> None:
    """Raise ConfigError for a draft that could not be served."""
    if drafted.server is None:
        raise ConfigError("the toolset", drafted.where, drafted.fault)
