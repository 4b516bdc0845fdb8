"""Toolsets of principals whose grants let them make one, and change nothing else of the hub.

Such a toolset gives its callers no right: each needs the right on the origins too (`"rights": "caller"`). It names
single entries that its maker may use at that moment, so that it has nothing of a server that comes later, and it says
nothing about limits and records. What the operator wrote into it stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchbay.boot import is_readonly
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.aggregate.hub_listing import AggregateListing
from patchbay.catalogue.operating.server_settings import read_settings
from patchbay.catalogue.operating.toolset_changes import ALL_SERVERS, ToolsetChange, Toolsets
from patchbay.catalogue.operating.toolsets import TOOLSET, WILDCARDS, DraftedToolset, ToolsetDrafts
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.errors import ConfigError, Refused
from patchbay.patterns.entries import splits
from patchbay.python_functions.script_texts import scripts_of
from patchbay.store import Store
from patchbay.suggestions import did_you_mean, find_similar_names

CALLER = "caller"
"""The value of `rights` with which a caller needs the right on each origin too."""

OWN_FIELDS = frozenset(
    ("$schema", "kind", "title", "description", "instructions", "include", "tools", "resources", "prompts", "rights")
)
"""The fields that a maker changes; the operator changes all."""

_READABLE = ("resources", "templates", "prompts")


class VisibleServers:
    """The servers of a hub as a maker may see them, with the entries that the maker may use."""

    def __init__(self, visible: VisibleCatalogue, listing: AggregateListing) -> None:
        self._visible = visible
        self.store: Store = visible.store
        self.listing = listing

    def all(self) -> list[Server]:
        """Return every visible server."""
        return self._visible.all()

    def find_any(self, name: str) -> Server | None:
        """Return the visible server of a name; None without one."""
        return next((one for one in self._visible.all() if one.name == name), None)

    def aggregate(self) -> Aggregate:
        """Return all visible servers as one."""
        return self._visible.aggregate()


class DelegatedDrafts(ToolsetDrafts):
    """Drafts of a maker. One that breaks a rule of these toolsets is no server: it can be neither called nor saved."""

    def __init__(self, servers: VisibleServers, readonly: bool) -> None:
        super().__init__(servers.store.blobs, lambda: {one.name: one for one in servers.all()}, readonly)
        self._servers = servers

    def draft(self, name: str, fields: Mapping[str, Any]) -> DraftedToolset:
        """Return the toolset that these fields would be under a name, made of what the maker may see."""
        wanted = {"kind": TOOLSET, "rights": CALLER, **fields}
        try:
            self.check(name, wanted)
        except (ConfigError, Refused) as problem:
            where, sentence = (problem.path, problem.expected) if isinstance(problem, ConfigError) else ("", "")
            return DraftedToolset(wanted, None, sentence or problem.message, where)
        return super().draft(name, wanted)

    def check(self, name: str, fields: Mapping[str, Any]) -> None:
        """Check the fields of a toolset of the maker. Raises Refused and ConfigError (`check_maker_fields`)."""
        check_maker_fields(name, self._stored(name), fields, self._every())

    def _stored(self, name: str) -> Mapping[str, Any] | None:
        """Return the stored fields of the server of a name; None without one."""
        server = self._servers.find_any(name)
        if server is None:
            return None
        try:
            found: Mapping[str, Any] = json.loads(read_settings(self._servers.store, server).text)
        except ConfigError:
            return server.config  # of the variable mcps, which the operator alone changes
        return found


class DelegatedToolsets(Toolsets):
    """The toolsets that one maker may change; `names` are theirs."""

    def __init__(
        self, servers: VisibleServers, folder: Path, refresh: Callable[[], None], names: frozenset[str]
    ) -> None:
        super().__init__(servers, folder, refresh)
        self._names = names
        self.drafts = self._checked = DelegatedDrafts(servers, is_readonly(servers.store))

    def apply(self, name: str, change: ToolsetChange, who: str) -> dict[str, Any]:
        """Make a change, as `Toolsets.apply` does. Raises Refused for another name too."""
        if name not in self._names or name == ALL_SERVERS:
            raise Refused(f"your grants let you change the toolsets {', '.join(sorted(self._names))}, not {name!r:.80}")
        return super().apply(name, change, who)

    def create(self, name: str, drafted: DraftedToolset, who: str) -> None:
        """Write the file of a new toolset, as `Toolsets.create` does. Raises ConfigError."""
        self._checked.check(name, drafted.fields)
        super().create(name, drafted, who)

    def save(self, server: Server, drafted: DraftedToolset, who: str, why: str, base: str | None = None) -> None:
        """Save a draft, as `Toolsets.save` does. Raises Refused and ConfigError too."""
        self._checked.check(server.name, drafted.fields)
        super().save(server, drafted, who, why, base)

    def list_all(self) -> list[dict[str, Any]]:
        """Return those of the toolsets that are there, with the price of each."""
        there = {one.name for one in self._servers.all() if one.kind == TOOLSET}
        return [self.describe(name) for name in sorted(self._names & there)]


def check_maker_fields(
    name: str, before: Mapping[str, Any] | None, wanted: Mapping[str, Any], every: Mapping[str, Server]
) -> None:
    """Check what a maker writes; `before` are the stored fields of the server, `every` what the maker may see.

    Raises Refused for a toolset or a field of the operator, ConfigError for an entry that the maker may not use.
    """
    if before is not None and (before.get("kind") != TOOLSET or before.get("rights") != CALLER):
        raise Refused(
            f"{name} gives its callers rights of its own: only the operator changes it. Your grant is for toolsets with"
            ' "rights": "caller"'
        )
    if wanted.get("rights") != CALLER:
        raise ConfigError(name, "rights", 'expected "caller": only the operator makes a toolset that gives rights')
    old = before or {}
    changed = [key for key in {**old, **wanted} if key not in OWN_FIELDS and old.get(key) != wanted.get(key)]
    if changed:
        raise Refused(f"only the operator changes {', '.join(sorted(changed))} of a toolset")
    _check_scripts(old, wanted)
    known = {member: _origins(old, member) for member in ("include", "tools", "resources", "prompts")}
    for member, old_origins in known.items():
        for place, origin in _origins(wanted, member).items():
            if origin not in old_origins.values():
                _check_usable(name, place, origin, member, every)


def _check_scripts(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Check that each script is a stored one: it runs with the rights of each caller. Raises Refused."""
    stored = scripts_of(before)
    for name, text in scripts_of(wanted).items():
        if stored.get(name) != text:
            raise Refused(f"tools.{name:.80}: only the operator writes scripts: leave it out, or as it is stored")


def _origins(fields: Mapping[str, Any], member: str) -> dict[str, str]:
    """Return the patterns and the origins of one member of the fields, by their places; a script alone has none."""
    found = fields.get(member, {})
    rows = found.items() if isinstance(found, Mapping) else enumerate(found)
    named = (
        (key, one.get("from", "") if isinstance(one, Mapping) else one) for key, one in rows if not _is_script(one)
    )
    return {f"{member}.{key}": str(origin) for key, origin in named}


def _is_script(shape: Any) -> bool:
    return isinstance(shape, Mapping) and "script" in shape and "from" not in shape


def _check_usable(name: str, place: str, origin: str, member: str, every: Mapping[str, Server]) -> None:
    """Check that an origin is one entry that the maker may use. Raises ConfigError with the nearest names."""
    groups = _READABLE[:2] if member == "resources" else ("prompts",) if member == "prompts" else ("tools",)
    known = {server: [key for group in groups for key in getattr(one, group)] for server, one in every.items()}
    is_pattern = bool(WILDCARDS.intersection(origin)) or origin in every
    if not is_pattern and any(entry in known.get(server, ()) for server, entry in splits(origin)):
        return
    close = find_similar_names(origin, [f"{server}.{key}" for server, keys in known.items() for key in keys])
    why = "a pattern may mean what comes later" if is_pattern else "there is no such entry that you may use"
    raise ConfigError(
        name, place, f"expected one entry, such as git.git_log; {origin!r:.80}: {why}{did_you_mean(close)}"
    )
