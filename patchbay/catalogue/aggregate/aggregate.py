"""All servers as one: tools, prompts and events are called `server__tool`; apps are at `ui://server/...`.

Other resources keep their URIs.

A public name (`public_names.py`) depends on server and tool alone, never on the order of the
servers. Where two entries would share a name, it belongs to a server of the hub before a mounted one, and then to the
server with the longest name, which the operator chose; `patchbay/catalogue/reading/uri_owners.py` decides who owns a
URI. The other entry is served by the endpoint of its own server, and the page of that server says so. The earlier
names, `server.tool`, `server_tool` and those of at most 64 characters, can still be called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import orjson

from patchbay.app_uris import APP_SCHEME, names_app, public_uri, split_app_uri, with_public_app
from patchbay.catalogue.aggregate.hub_listing import AggregateListing
from patchbay.catalogue.aggregate.public_names import (
    former_public_name,
    public_name,
    whole_name,
)
from patchbay.catalogue.reading.skills import Skill
from patchbay.catalogue.reading.uri_owners import HUB_SCHEMES, Owner, UriOwners, scheme_of
from patchbay.catalogue.servers.rows import BOOT
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.cid import cid_of
from patchbay.descriptors import Descriptor, Problem
from patchbay.upstreams.lists.list_bounds import limit_problems
from patchbay.views.hidden_characters import show_hidden_characters

NAME_OF_ALL = "patchbay"
"""The name that the aggregate server reports to clients."""

MAX_LINE_CHARACTERS = 300
"""Maximum number of characters of a server's description in the instructions of the aggregate."""

MAX_CACHED_LINES = 4096
"""Maximum number of cached lines of the instructions."""

NAMED = frozenset(("tools", "prompts", "events"))
"""The lists whose entries have names; those of the others have URIs."""


@dataclass(frozen=True)
class Aggregate(Server):
    """A server made of all other servers.

    `owners` maps a list and a public key to the server and the key it has there; `dotted` maps `tools` or `prompts` and
    `server.name` to the same, `former` the names of earlier versions where they differ. `uris` decides who answers for
    a URI. `mounted` are the names of servers whose lists strangers choose. `refused` has the entries that are served by
    the endpoint of their own server alone, by server.
    """

    owners: Mapping[str, Mapping[str, Owner]] = field(default_factory=dict)
    dotted: Mapping[str, Mapping[str, Owner]] = field(default_factory=dict)
    former: Mapping[str, Mapping[str, Owner]] = field(default_factory=dict)
    uris: UriOwners = field(default_factory=UriOwners)
    mounted: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()
    refused: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)

    def listed(self, kind: str) -> Mapping[str, Descriptor]:
        """Return the listed entries of a kind; those of an unlisted server are left out."""
        return self._listed_entries(kind) if self.unlisted else super().listed(kind)

    def _listed_entries(self, kind: str) -> Mapping[str, Descriptor]:
        if kind == "tools":
            return self.listing.visible(self.found_tools)
        owners = self.owners[kind]
        entries: Mapping[str, Descriptor] = getattr(self, kind)
        return {key: one for key, one in entries.items() if owners[key][0].name not in self.unlisted}

    def groups(self, kind: str) -> Mapping[str, str]:
        """Return the server of each listed entry of a kind, by its public key; the two search tools have none."""
        owners = self.owners[kind]
        return {key: owners[key][0].name for key in self.listed(kind) if key in owners}

    @cached_property
    def members(self) -> Mapping[str, Server]:
        """The servers that own an entry, by name."""
        return {owner.name: owner for table in self.owners.values() for owner, _ in table.values()}

    @cached_property
    def found_tools(self) -> Mapping[str, Descriptor]:
        """The tools that a list shows or a search finds."""
        if not self.unlisted:
            return self.tools
        owners = self.owners["tools"]
        return {name: one for name, one in self.tools.items() if owners[name][0].name not in self.unlisted}

    @cached_property
    def listed_skills(self) -> Mapping[str, Skill]:
        """The skills that a list shows."""
        if not self.unlisted:
            return self.skills
        hidden = {uri for uri, owner in self.uris.resources.items() if owner[0].name in self.unlisted}
        return {name: skill for name, skill in self.skills.items() if skill.uri not in hidden}

    @property
    def announced_as(self) -> str:
        """Empty: the aggregate receives the announcements of every server."""
        return ""

    def owner(self, kind: str, key: str) -> Owner | None:
        """Return the owner of a `tools`, `prompts`, `events`, `resources` or `templates` entry.

        Tools and prompts are also found by `server.name` and by their names of earlier versions, tools also by
        `server_tool`.
        """
        found = self.owners[kind].get(key) or self.dotted.get(kind, {}).get(key) or self.former.get(kind, {}).get(key)
        return found or (self._underscored(key) if kind == "tools" else None)

    def reader(self, uri: str) -> Server | None:
        """Return the server that reads a URI; None for the hub itself, and for an app (see `app_owner`)."""
        return self.uris.find(uri)

    def resource_owner(self, uri: str) -> Owner | None:
        """Return the server that a URI is read from, and the URI there; None for the hub itself and for no server."""
        found = self.reader(uri)
        return (found, uri) if found is not None else self.app_owner(uri)

    def may_name(self, server: Server, uri: str) -> bool:
        """Whether the contents that a server returns may stand under a URI, which may be one that no list has."""
        owner = self.resource_owner(uri)
        if owner is not None:
            return owner[0].name == server.name
        return not server.is_mounted or scheme_of(uri) not in HUB_SCHEMES

    def may_announce(self, server: str, uri: str) -> bool:
        """Whether a change of a URI that a server announces is one of this server's resources."""
        owner = self.resource_owner(uri)
        return server not in self.mounted if owner is None else owner[0].name == server

    def app_owner(self, uri: str) -> Owner | None:
        """Return the server of an app's public URI, and the URI there, which no list needs to have; None otherwise."""
        named = split_app_uri(uri)
        if named is None:
            return None
        owners = (owner for table in self.owners.values() for owner, _ in table.values())
        found = next((owner for owner in owners if owner.name == named[0]), None)
        return (found, named[1]) if found else None

    def app_tool(self, name: str) -> Owner | None:
        """Return the only tool of this name of the servers with apps, if apps may call it; None with several.

        An app names the tools of its server without a prefix, and most clients do not say which app calls. A tool of
        this name that apps may not call counts too: the call of its own app must not reach another server.
        """
        found = [owner for owner in self.owners["tools"].values() if owner[1] == name]
        ours = [one for one in found if any(names_app(each.wire) for each in one[0].tools.values())]
        return ours[0] if len(ours) == 1 and ours[0][0].tools[name].is_for_apps else None

    def app_resource(self, uri: str) -> Server | None:
        """Return the only server that lists an app by its own URI; None with several.

        An app names the other pages of its server without the name of the server.
        """
        found = [owner for owner, key in self.owners["resources"].values() if key == uri and uri.startswith(APP_SCHEME)]
        return found[0] if len(found) == 1 else None

    def _underscored(self, key: str) -> Owner | None:
        # The longest matching server name wins, because names may contain underscores.
        for name in sorted({server.name for server, _ in self.owners["tools"].values()}, key=len, reverse=True):
            found = self.dotted["tools"].get(f"{name}.{key[len(name) + 1 :]}") if key.startswith(f"{name}_") else None
            if found is not None and found[0].name == name:
                return found
        return None


def build_aggregate(servers: Iterable[Server], listed: AggregateListing | None = None) -> Aggregate:
    """Build one server of all served servers; the patterns of the listing match public names."""
    listed = listed or AggregateListing()
    listing = listed.variable.tools
    parts = [server for server in servers if server.enabled and not server.broken]
    gathered: dict[str, dict[str, Descriptor]] = {}
    owners: dict[str, dict[str, Owner]] = {}
    refused: dict[str, list[Problem]] = defaultdict(list)
    for kind in sorted(NAMED):
        gathered[kind], owners[kind] = _merge_names(kind, parts, refused)
    uris = UriOwners.of(parts)
    for kind, found in (("resources", uris.resources), ("templates", uris.templates)):
        gathered[kind], owners[kind] = _merge_uris(kind, parts, found)
    dotted = {kind: _dotted_names(kind, owners[kind].values(), refused) for kind in ("tools", "prompts")}
    former = {kind: _former_names(kind, owners[kind], refused) for kind in dotted}
    skills = _merge_skills(parts, refused)
    for name, faults in uris.refused.items():
        refused[name] += faults
    bounded = {name: tuple(limit_problems(faults)) for name, faults in refused.items()}
    problems = [problem for faults in bounded.values() for problem in faults]
    problems += [*listed.problems(), *listing.problems(gathered["tools"])]
    tools = listing.select(gathered["tools"])
    owners["tools"] = {name: owners["tools"][name] for name in tools}
    remaining = {(server.name, key) for server, key in owners["tools"].values()}
    for names in (dotted, former):
        names["tools"] = {name: one for name, one in names["tools"].items() if (one[0].name, one[1]) in remaining}
    version = cid_of(orjson.dumps({server.name: server.version for server in parts}, option=orjson.OPT_SORT_KEYS))
    return Aggregate(
        NAME_OF_ALL,
        version,
        "static",
        title="Patchbay",
        description="All servers of this hub",
        instructions=_describe_servers(parts, listed),
        tools=tools,
        resources=gathered["resources"],
        templates=gathered["templates"],
        prompts=gathered["prompts"],
        events=gathered["events"],
        skills=skills,
        problems=tuple(problems),
        listing=listing,
        owners=owners,
        dotted=dotted,
        former=former,
        uris=uris,
        unlisted=listed.unlisted,
        mounted=frozenset([server.name for server in parts if server.is_mounted]),
        refused=bounded,
        via=tuple(dict.fromkeys([way for server in parts for way in server.via])),
    )


def _describe_servers(parts: Iterable[Server], listed: AggregateListing) -> str:
    """Return the instructions of the aggregate: how its tools are called, and its listed servers."""
    shown = [server for server in parts if server.name not in listed.unlisted]
    if not shown and listed.unlisted:
        return "No server is listed here yet. Each built-in server of this hub has an endpoint of its own, /mcp/NAME."
    lines = [f"- {server.name}: {_in_one_line(server.description)}".rstrip(": ") for server in shown]
    return "\n".join(["Tools are called server__tool. The servers:", *lines])


@lru_cache(MAX_CACHED_LINES)
def _in_one_line(description: str) -> str:
    """Return a description as the rest of one line, so that no server writes a line about another one."""
    line = show_hidden_characters(" ".join(description.split()))
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[: MAX_LINE_CHARACTERS - 1]}…"


def _merge_names(
    kind: str, parts: list[Server], refused: dict[str, list[Problem]]
) -> tuple[dict[str, Descriptor], dict[str, Owner]]:
    """Return the entries of a list by public name, and their owners; a name of two servers belongs to one."""
    renamed: dict[tuple[str, str], Descriptor] = {}
    claims: dict[str, list[Owner]] = defaultdict(list)
    for server in parts:
        if getattr(server, kind):
            for public, key, one in _PUBLIC_ENTRIES.get(server, kind, partial(_public_entries, kind, server)):
                claims[public].append((server, key))
                renamed[server.name, key] = one
    owners = _with_longest_names(kind, claims, "not served at /mcp", refused)
    return {public: renamed[server.name, key] for public, (server, key) in owners.items()}, owners


def _public_entries(kind: str, server: Server) -> list[tuple[str, str, Descriptor]]:
    """Return each entry of a server's list with its public name and the key that it has there."""
    named = [(_public_name(kind, server, key), key, one) for key, one in getattr(server, kind).items()]
    return [(public, key, _renamed(kind, public, server, key, one)) for public, key, one in named]


_PUBLIC_ENTRIES: ServerCache[str, list[tuple[str, str, Descriptor]]] = ServerCache()
"""The entries of each list of a server under their public names, which depend on this server alone."""


def _merge_uris(
    kind: str, parts: list[Server], taken: Mapping[str, Owner]
) -> tuple[dict[str, Descriptor], dict[str, Owner]]:
    """Return the entries of a list by public URI and their owners, in the order of the servers."""
    owners: dict[str, Owner] = {}
    found: dict[str, Descriptor] = {}
    for server in parts:
        for key, one in getattr(server, kind).items():
            public = public_uri(server.name, key)
            if (owner := taken.get(public)) is not None and owner[0] is server:
                owners[public] = owner
                found[public] = _renamed(kind, public, server, key, one)
    return found, owners


def _with_longest_names(
    kind: str, claims: Mapping[str, list[Owner]], effect: str, refused: dict[str, list[Problem]]
) -> dict[str, Owner]:
    """Return the owner of each name among those that claim it, and note the others."""
    return {
        name: those[0] if len(those) == 1 else _with_longest_name(name, kind, those, effect, refused)
        for name, those in claims.items()
    }


def _with_longest_name(
    public: str, kind: str, claimants: list[Owner], effect: str, refused: dict[str, list[Problem]]
) -> Owner:
    """Return the claimant whose server has the longest name, servers of the hub first, and note the others.

    A server chooses the names of its entries, but not its own name, so that it cannot take a name of another server.
    """
    # The last part decides between two entries of one server, in whichever order it lists them.
    owner = max(claimants, key=lambda one: (not one[0].is_mounted, len(one[0].name), one[0].name, one[1]))
    for server, key in claimants:
        if (server, key) != owner:
            reason = f"{effect}: the {kind} of {owner[0].name} have this name; use {public_name(server.name, key)}"
            refused[server.name].append(Problem(public, reason))
    return owner


def _renamed(kind: str, public: str, server: Server, key: str, one: Descriptor) -> Descriptor:
    """Return an entry under its public name or URI; a tool also names its app by the app's public URI.

    The title of a tool or prompt has the whole name where the public name has not.
    """
    if kind in NAMED:
        wire = with_public_app(server.name, {**one.wire, "name": public})
        others: tuple[str, ...] = ()
        whole = whole_name(server.name, key)
        if kind != "events" and not public.startswith(whole):
            wire["title"] = _title_with_name(one.wire, whole)
            others = (whole, former_public_name(server.name, key))
        return replace(one, name=public, wire=wire, belongs_to=(server.name, key), other_names=others)
    member = "uri" if kind == "resources" else "uriTemplate"
    return one if public == key else replace(one, name=public, wire={**one.wire, member: public})


def _title_with_name(wire: Mapping[str, Any], whole: str) -> str:
    """Return the title of an entry with its whole name."""
    annotations = wire.get("annotations")
    title = wire.get("title") or (annotations.get("title") if isinstance(annotations, Mapping) else None)
    return f"{title} ({whole})" if isinstance(title, str) and title else whole


def _merge_skills(parts: list[Server], refused: dict[str, list[Problem]]) -> dict[str, Skill]:
    """Return the skills by name; of two with one name, the one whose server owns the URI of its SKILL.md."""
    found: dict[str, Skill] = {}
    owners: dict[str, str] = {}
    # The same order as that of URIs, so that a skill and its files come from one server.
    having = [server for server in parts if server.skills]
    for server in sorted(having, key=lambda one: (one.is_mounted, one.origin != BOOT, one.name)):
        for name, skill in server.skills.items():
            if name in found:
                reason = f"not served at /mcp: {owners[name]} has a skill of this name; /mcp/{server.name} serves it"
                refused[server.name].append(Problem(name, reason))
            else:
                found[name], owners[name] = skill, server.name
    return found


def _dotted_names(kind: str, owners: Iterable[Owner], refused: dict[str, list[Problem]]) -> dict[str, Owner]:
    """Map `server.name` to each owner."""
    claims: dict[str, list[Owner]] = defaultdict(list)
    for owner in owners:
        claims[f"{owner[0].name}.{owner[1]}"].append(owner)
    effect = "cannot be called by this name"
    return _with_longest_names(kind, claims, effect, refused)


def _former_names(kind: str, owners: Mapping[str, Owner], refused: dict[str, list[Problem]]) -> dict[str, Owner]:
    """Map the name of earlier versions to each owner that has another name now."""
    claims: dict[str, list[Owner]] = defaultdict(list)
    for public, (server, key) in owners.items():
        if (former := former_public_name(server.name, key)) != public:
            claims[former].append((server, key))
    effect = "cannot be called by this former name"
    return _with_longest_names(kind, claims, effect, refused)


def _public_name(kind: str, server: Server, key: str) -> str:
    # No model calls events, so that their names keep their dots.
    return f"{server.name}__{key}" if kind == "events" else public_name(server.name, key)
