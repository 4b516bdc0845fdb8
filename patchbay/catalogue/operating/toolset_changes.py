"""Changes of toolsets as commands and pages ask for them: checked, saved, and described with the price of each tool.

The name `mcp` stands for the list of all servers, `/mcp`: its tools are those of the variable `listing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from patchbay.boot import is_readonly
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.aggregate.hub_listing import AggregateListing
from patchbay.catalogue.operating.hub_list import list_server, write_listing
from patchbay.catalogue.operating.new_servers import check_new, write_configuration
from patchbay.catalogue.operating.past_versions import (
    PastVersion,
    describe_version,
    find_previous,
    find_version,
    list_versions,
)
from patchbay.catalogue.operating.server_settings import read_settings, save_settings
from patchbay.catalogue.operating.switching import check_changeable
from patchbay.catalogue.operating.toolsets import (
    TOOLSET,
    DraftedToolset,
    ToolsetDrafts,
    as_pattern,
    check_draft,
    describe_problem,
    to_text,
)
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.list_prices import describe_price, estimate_tokens, tool_prices
from patchbay.catalogue.servers.server import Server, unknown_server
from patchbay.descriptors import Descriptor
from patchbay.errors import ConfigError, UnknownServer
from patchbay.patterns.entries import covers, fits, splits
from patchbay.python_functions.script_texts import SCRIPT_ORIGIN, is_script_tool
from patchbay.store import Store
from patchbay.suggestions import did_you_mean, find_similar_names

ALL_SERVERS = "mcp"
"""The name of the list of all servers in the place of a toolset's."""

ACTIONS = ("new", "add", "remove", "shape", "script", "put", "rollback")

MAX_VERSIONS = 50
"""Versions of a toolset that are read, the newest first."""


@dataclass(frozen=True, slots=True)
class ToolsetChange:
    """A change of a toolset: `do` is one of ACTIONS.

    `entries` are the tools to choose or to take out; `tool` is the one to shape, and `shape` what it shows then
    (`new_name`, `title`, `description`, `arguments`, `script`); `script` is the text of a new tool that is a script, by
    the name `tool`. `title` and `description` are those of a new toolset; `called` are entries of it that may not be
    there any more. `fields` are the whole configuration to put; `version` is the number or the content identifier of
    the version to put back, empty for the previous one. `base` is the CID of the configuration that the author of the
    whole one started from, empty for any.
    """

    do: str
    entries: tuple[str, ...] = ()
    tool: str = ""
    shape: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    called: tuple[str, ...] = ()
    script: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    base: str = ""


class Servers(Protocol):
    """The servers of a hub: what this module asks a catalogue."""

    store: Store

    @property
    def listing(self) -> AggregateListing: ...

    def all(self) -> list[Server]: ...

    def find_any(self, name: str) -> Server | None: ...

    def aggregate(self) -> Aggregate: ...


class Toolsets:
    """The toolsets of a hub. `folder` is its servers folder, `refresh` brings the servers up to date after a change."""

    def __init__(self, servers: Servers, folder: Path, refresh: Callable[[], None]) -> None:
        self._servers, self._folder, self._refresh = servers, folder, refresh
        self._store = servers.store
        every = lambda: {one.name: one for one in servers.all()}  # noqa: E731
        self.drafts = ToolsetDrafts(self._store.blobs, every, is_readonly(self._store))

    def apply(self, name: str, change: ToolsetChange, who: str) -> dict[str, Any]:
        """Make a change and return what the toolset has then, as `describe` does.

        Raises ConfigError, which names the nearest word for a mistake, ReadOnly, UnknownServer, StaleUpdate.
        """
        check_changeable(self._store)
        self._refresh()
        if name == ALL_SERVERS:
            self._change_list(change, who)
        elif change.do == "new":
            self.create(name, self.draft_new(name, change), who)
        elif change.do == "put":
            self._put(name, change.fields, change.base, who)
        elif change.do == "rollback":
            self._roll_back(name, change.version, who)
        else:
            server = self.find(name)
            base = self.base_of(server)
            self.save(server, self.draft_change(server, change), who, f"{change.do} on a toolset", base)
        self._refresh()
        return self.describe(name)

    def _put(self, name: str, fields: Mapping[str, Any], base: str, who: str) -> None:
        """Save the whole configuration of a toolset, which may be new without a `base`.

        Raises ConfigError, and what `save` raises.
        """
        if fields.get("kind") != TOOLSET:
            raise ConfigError(name, "kind", f"expected {TOOLSET!r}: this writes toolsets alone")
        before = self.find(name) if base or self._servers.find_any(name) is not None else None
        drafted = self.drafts.draft(name, fields)
        check_draft(drafted)
        known = before.problems if before is not None else ()
        for problem in drafted.problems:
            if problem not in known:
                raise ConfigError(name, problem.where, describe_problem(problem))
        if before is None:
            self.create(name, drafted, who)
        else:
            self.save(before, drafted, who, "put as a whole", base)

    def _roll_back(self, name: str, version: str, who: str) -> None:
        """Save the configuration of an earlier version; the current one stays as it is.

        Raises ConfigError, InvalidParams, and what `save` raises.
        """
        server = self.find(name)
        versions = list_versions(self._store, name, limit=MAX_VERSIONS)
        target = find_version(versions, name, version) if version else find_previous(versions, name)
        fields = self._fields_of_version(target)
        if fields is None:
            raise ConfigError(name, "", f"expected a version that is a toolset; {target.label} is another server")
        drafted = self.drafts.draft(name, fields)
        check_draft(drafted)
        if target.cid != versions[0].cid:
            self.save(server, drafted, who, f"roll back to version {target.label}")

    def _fields_of_version(self, version: PastVersion) -> dict[str, Any] | None:
        """Return the configuration of a version; None for one that is no toolset."""
        if version.row is None or not version.row.is_configuration:
            return None
        found = json.loads(self._store.blobs.get(version.row.definition_cid))
        return found if isinstance(found, dict) and found.get("kind") == TOOLSET else None

    def versions(self, name: str) -> dict[str, Any]:
        """Return the stored configuration of a toolset, its CID and its versions, the newest first; nothing of others.

        A version that was a server of another kind is left out: who may change a toolset need not see it.
        """
        server = self._servers.find_any(name)
        if server is None or server.kind != TOOLSET:
            return {}
        try:
            found = list_versions(self._store, name, limit=MAX_VERSIONS)
            definition: dict[str, Any] = self.fields_of(server)
        except (ConfigError, UnknownServer):
            return {}  # the variable `mcps` has it
        rows = [one for one in found if one.row is None or self._fields_of_version(one) is not None]
        return {
            "definition": definition,
            "cid": self.base_of(server),
            "versions": [describe_version(one) for one in rows],
        }

    def find(self, name: str) -> Server:
        """Return a toolset. Raises UnknownServer with the nearest names, ConfigError for a server of another kind."""
        found = self._servers.find_any(name)
        toolsets = [one.name for one in self._servers.all() if one.kind == TOOLSET]
        if found is None:
            raise unknown_server(name, toolsets or [one.name for one in self._servers.all()])
        if found.kind != TOOLSET:
            close = find_similar_names(name, toolsets)
            hint = f"; the toolsets are {', '.join(close or toolsets[:5])}" if toolsets else ""
            raise ConfigError(name, "", f"expected a toolset: this server has tools of its own{hint}")
        return found

    def fields_of(self, server: Server) -> dict[str, Any]:
        """Return the stored fields of a toolset. Raises ConfigError for one that only a variable has."""
        found: dict[str, Any] = json.loads(read_settings(self._store, server).text)
        return found

    def draft_new(self, name: str, change: ToolsetChange) -> DraftedToolset:
        """Return the new toolset that a change would make. Raises ConfigError."""
        self._check_is_new(name)
        entries = list(dict.fromkeys([*change.entries, *filter(self._is_there, change.called)]))
        if not entries and change.called:
            raise ConfigError(name, "", f"none of the called tools is there now: {', '.join(change.called[:5])}")
        if not entries:
            raise ConfigError(name, "", "expected at least one tool, such as git.git_log, git.* or git")
        fields: dict[str, Any] = {"kind": TOOLSET}
        fields |= {key: text for key in ("title", "description") if (text := getattr(change, key))}
        return self.drafts.add(name, fields, entries)

    def _is_there(self, entry: str) -> bool:
        """Whether a served server has the tool `server.tool`."""
        owners = ((self._servers.find_any(server), tool) for server, tool in splits(entry))
        return any(one is not None and one.enabled and tool in one.tools for one, tool in owners)

    def draft_change(self, server: Server, change: ToolsetChange) -> DraftedToolset:
        """Return the toolset that a change would make of one. Raises ConfigError."""
        fields = self.fields_of(server)
        if change.do == "add":
            return self.drafts.add(server.name, fields, change.entries)
        if change.do == "remove":
            return self.drafts.remove(server.name, fields, change.entries, server.tools)
        if change.do == "shape":
            return self.drafts.shape(server.name, fields, change.tool, server.tools, **change.shape)
        if change.do == "script":
            return self.drafts.add_script(server.name, fields, change.tool, change.script)
        raise ConfigError("do", "", f"expected one of {', '.join(ACTIONS)}; it is {change.do!r:.40}")

    def create(self, name: str, drafted: DraftedToolset, who: str) -> None:
        """Write the file of a new toolset, which `who` made. Raises ConfigError, also for a name that any server has;
        then nothing is written.
        """
        self._check_is_new(name)
        file = write_configuration(self._folder, name, drafted.fields)
        ServerEditor(self._store, self._folder).import_new_file(name, file, who, "a new toolset")

    def _check_is_new(self, name: str) -> None:
        check_new(self._folder, name)
        if self._servers.find_any(name) is not None:
            raise ConfigError(name, "", "expected a new name: this hub has a server of this name")

    def base_of(self, server: Server) -> str:
        """Return the CID of the stored configuration of a toolset; empty for one that only a variable has."""
        try:
            return read_settings(self._store, server).cid
        except ConfigError:
            return ""

    def save(self, server: Server, drafted: DraftedToolset, who: str, why: str, base: str | None = None) -> None:
        """Save a draft as the configuration of a toolset; `base` is the CID that its author started from.

        Raises StaleUpdate, Refused, InvalidParams, and ConfigError for one that only a variable has.
        """
        now = read_settings(self._store, server)
        save_settings(self._store, self._folder, now, base or now.cid, to_text(drafted.fields), who, why)

    def list_all(self) -> list[dict[str, Any]]:
        """Return the list of all servers and each toolset, with the price of each."""
        names = sorted(one.name for one in self._servers.all() if one.kind == TOOLSET)
        return [self.describe(name) for name in (ALL_SERVERS, *names)]

    def describe(self, name: str) -> dict[str, Any]:
        """Return the tools of a server, or of all, with the bytes and tokens of each. Raises UnknownServer."""
        server = self._servers.aggregate() if name == ALL_SERVERS else self._servers.find_any(name)
        if server is None:
            raise unknown_server(name, [one.name for one in self._servers.all()])
        problems = [f"{one.where}: {describe_problem(one)}" for one in server.problems]
        if name == ALL_SERVERS:
            problems = [one for one in problems if one.startswith(("listing.", "variables/listing"))]
        unlisted = sorted(self._servers.listing.unlisted) if name == ALL_SERVERS else []
        return {
            "name": name,
            "endpoint": "/mcp" if name == ALL_SERVERS else f"/mcp/{name}",
            "kind": "list" if name == ALL_SERVERS else server.kind,
            "broken": server.broken or "",
            **price_list(server),
            "unlisted": unlisted,
            "problems": problems,
        }

    def _change_list(self, change: ToolsetChange, who: str) -> None:
        """Put servers and tools into the list of all servers, or take them out. Raises ConfigError."""
        if change.do not in ("add", "remove"):
            raise ConfigError(ALL_SERVERS, "", "expected add or remove: the list of all servers renames no tool")
        for entry in change.entries:
            pattern, listing = as_pattern(entry), self._servers.listing
            if pattern in listing.built_in:
                list_server(self._store, pattern, listing, change.do == "add", who)
            else:
                self._change_patterns(pattern, change.do == "add", who)
            self._refresh()

    def _change_patterns(self, pattern: str, is_added: bool, who: str) -> None:
        wanted = pattern if "." in pattern or "__" in pattern else f"{pattern}.*"
        listing = self._servers.listing.variable.tools
        include, exclude = list(listing.include), list(listing.exclude)
        if is_added and wanted in exclude:
            exclude.remove(wanted)
        elif not is_added and wanted in include:
            include.remove(wanted)
        else:
            self._check_matches(wanted)
            if not is_added:
                exclude += [] if wanted in exclude else [wanted]
            elif "*" not in include and wanted not in include:
                include.append(wanted)
        if not include:
            raise ConfigError(ALL_SERVERS, "", f"expected one pattern at least in include: exclude {pattern} instead")
        fields = {"include": [] if include == ["*"] else include, "exclude": exclude}
        word = "has" if is_added else "does not have"
        write_listing(self._store, fields, self._servers.listing, who, f"the list at /mcp {word} {pattern}")

    def _check_matches(self, pattern: str) -> None:
        """Raise ConfigError with the nearest name for a pattern that matches no tool of a served server."""
        served = [one for one in self._servers.all() if one.enabled and not one.broken]
        known = [(one.name, tool) for one in served for tool in one.tools]
        if any(covers(pattern, *one) or fits(pattern, "__".join(one)) for one in known):
            return
        names = [f"{one.name}.*" for one in served] if pattern.endswith("*") else []
        close = did_you_mean(find_similar_names(pattern.strip("*?"), [*names, *map(".".join, known)]))
        raise ConfigError(ALL_SERVERS, "", f"no tool matches {pattern}{close}")


def price_list(server: Server) -> dict[str, Any]:
    """Return the listed tools of a server with the price of each and of all, as values of JSON."""
    prices = tool_prices(server)
    total = sum(prices.values())
    return {
        "tools": [_price_tool(server.listed("tools")[name], size) for name, size in prices.items()],
        "bytes": total,
        "tokens": estimate_tokens(total),
        "price": describe_price(prices.values()),
    }


def _price_tool(tool: Descriptor, size: int) -> dict[str, Any]:
    owner = tool.origins[0][:2] if tool.origins else tool.belongs_to
    server, name = owner or ("", "")
    return {
        "name": tool.name,
        "from": f"{server}.{name}" if owner else SCRIPT_ORIGIN if is_script_tool(tool.wire) else "",
        "server": server,  # apart from its tool, because both names may have dots
        "tool": name,
        "description": " ".join(str(tool.wire.get("description") or "").split())[:200],
        "bytes": size,
        "tokens": estimate_tokens(size),
    }
