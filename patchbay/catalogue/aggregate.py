"""All servers as one: tools, prompts and events are called `server__tool`; apps are at `ui://server/...`.

Other resources keep their URIs.

A public name (`patchbay/catalogue/public_names.py`) depends on server and tool alone, never on the order of the
servers. Where two entries would share a name or a URI, both are left out, so that no server can impersonate another.
The earlier names, `server.tool` and `server_tool`, can still be called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from patchbay.catalogue.listing import Listing
from patchbay.catalogue.public_names import APP_SCHEME, public_name, public_uri, split_app_uri
from patchbay.catalogue.reading.skills import Skill
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.catalogue.servers import Server
from patchbay.cid import cid_of
from patchbay.descriptors import Descriptor, Problem

NAME_OF_ALL = "patchbay"
"""The name that the aggregate server reports to clients."""

NAMED = frozenset(("tools", "prompts", "events"))
"""The lists whose entries have names; those of the others have URIs."""

OLD_APP_MEMBER = "ui/resourceUri"
"""The earlier member of a tool's `_meta` for the URI of its app (SEP-1865, deprecated)."""

Owner = tuple[Server, str]


@dataclass(frozen=True)
class Aggregate(Server):
    """A server made of all other servers.

    `owners` maps a list and a public key to the server and the key it has there; `dotted` maps `tools` or `prompts` and
    `server.name` to the same.
    """

    owners: Mapping[str, Mapping[str, Owner]] = field(default_factory=dict)
    dotted: Mapping[str, Mapping[str, Owner]] = field(default_factory=dict)

    @property
    def announced_as(self) -> str:
        """Empty: the aggregate receives the announcements of every server."""
        return ""

    def owner(self, kind: str, key: str) -> Owner | None:
        """Return the owner of a `tools`, `prompts`, `events`, `resources` or `templates` entry.

        Tools and prompts are also found by `server.name`, tools also by `server_tool`.
        """
        found = self.owners[kind].get(key) or self.dotted.get(kind, {}).get(key)
        return found or (self._underscored(key) if kind == "tools" else None)

    def reader(self, uri: str) -> Server | None:
        """Return the server that reads a URI: by its resources, then by its templates. For an app, see `app_owner`."""
        if uri.startswith(APP_SCHEME):
            return None
        found = self.owners["resources"].get(uri)
        if found is None:
            matching = (key for key in self.owners["templates"] if compile_template(key).match(uri) is not None)
            found = self.owners["templates"].get(next(matching, ""))
        return found[0] if found else None

    def app_owner(self, uri: str) -> Owner | None:
        """Return the server of an app's public URI, and the URI there, which no list needs to have; None otherwise."""
        named = split_app_uri(uri)
        if named is None:
            return None
        owners = (owner for table in self.owners.values() for owner, _ in table.values())
        found = next((owner for owner in owners if owner.name == named[0]), None)
        return (found, named[1]) if found else None

    def app_tool(self, name: str) -> Owner | None:
        """Return the only tool of this name that apps may call, of the servers with apps; None with several.

        An app names the tools of its server without a prefix, and most clients do not say which app calls.
        """
        found = [owner for owner in self.owners["tools"].values() if owner[1] == name]
        ours = [one for one in found if one[0].tools[name].is_for_apps and any(map(names_app, one[0].tools.values()))]
        return ours[0] if len(ours) == 1 else None

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


def build_aggregate(servers: Iterable[Server], listing: Listing | None = None, problem: str | None = None) -> Aggregate:
    """Build one server of all served servers; `listing` matches public names, `problem` is its fault, if any."""
    listing = listing or Listing()
    parts = [server for server in servers if server.enabled and not server.broken]
    gathered: dict[str, dict[str, Descriptor]] = {}
    owners: dict[str, dict[str, Owner]] = {}
    problems: list[Problem] = []
    for kind in ("tools", "resources", "templates", "prompts", "events"):
        gathered[kind], owners[kind], faults = _merge_entries(kind, parts)
        problems += faults
    dotted: dict[str, dict[str, Owner]] = {}
    for kind in ("tools", "prompts"):
        dotted[kind], faults = _dotted_names(kind, owners[kind].values())
        problems += faults
    problems += [Problem("variables/listing", f"the variable listing cannot be used: {problem}")] if problem else []
    problems += listing.problems(gathered["tools"])
    tools = listing.select(gathered["tools"])
    owners["tools"] = {name: owners["tools"][name] for name in tools}
    remaining = {(server.name, key) for server, key in owners["tools"].values()}
    dotted["tools"] = {name: one for name, one in dotted["tools"].items() if (one[0].name, one[1]) in remaining}
    skills, faults = _merge_skills(parts)
    problems += faults
    version = cid_of(orjson.dumps({server.name: server.version for server in parts}, option=orjson.OPT_SORT_KEYS))
    lines = [f"- {server.name}: {server.description}".rstrip(": ") for server in parts]
    return Aggregate(
        NAME_OF_ALL,
        version,
        "static",
        title="Patchbay",
        description="All servers of this hub",
        instructions="Tools are called server__tool. The servers:\n" + "\n".join(lines),
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
        via=tuple(dict.fromkeys(way for server in parts for way in server.via)),
    )


def _merge_entries(kind: str, parts: list[Server]) -> tuple[dict[str, Descriptor], dict[str, Owner], list[Problem]]:
    claims: dict[str, list[tuple[Server, str, Descriptor]]] = defaultdict(list)
    for server in parts:
        for key, one in getattr(server, kind).items():
            claims[_public_key(kind, server, key)].append((server, key, one))
    found: dict[str, Descriptor] = {}
    owners: dict[str, Owner] = {}
    problems: list[Problem] = []
    for public, claimants in claims.items():
        reason = _refusal_reason(kind, claimants)
        if reason:
            problems.append(Problem(public, reason))
            continue
        server, key, one = claimants[0]
        found[public] = _renamed(kind, public, server, key, one)
        owners[public] = (server, key)
    return found, owners, problems


def _renamed(kind: str, public: str, server: Server, key: str, one: Descriptor) -> Descriptor:
    """Return an entry under its public name or URI; a tool also names its app by the app's public URI."""
    if kind in NAMED:
        wire = _with_public_app(server.name, {**one.wire, "name": public})
        return replace(one, name=public, wire=wire, belongs_to=(server.name, key))
    member = "uri" if kind == "resources" else "uriTemplate"
    return one if public == key else replace(one, name=public, wire={**one.wire, member: public})


def _with_public_app(server: str, wire: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's wire form with the public URI of its app; every other member of `_meta` stays (SEP-1865)."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping):
        return wire
    fresh, ui = dict(meta), meta.get("ui")
    if isinstance(ui, Mapping) and isinstance(ui.get("resourceUri"), str):
        fresh["ui"] = {**ui, "resourceUri": public_uri(server, ui["resourceUri"])}
    if isinstance(meta.get(OLD_APP_MEMBER), str):
        fresh[OLD_APP_MEMBER] = public_uri(server, meta[OLD_APP_MEMBER])
    return {**wire, "_meta": fresh}


def names_app(tool: Descriptor) -> bool:
    """Whether a tool has an app that shows its results."""
    meta = tool.wire.get("_meta")
    if not isinstance(meta, Mapping):
        return False
    ui = meta.get("ui")
    return OLD_APP_MEMBER in meta or (isinstance(ui, Mapping) and "resourceUri" in ui)


def _merge_skills(parts: list[Server]) -> tuple[dict[str, Skill], list[Problem]]:
    owners: dict[str, list[str]] = defaultdict(list)
    for server in parts:
        for name in server.skills:
            owners[name].append(server.name)
    found = {name: skill for server in parts for name, skill in server.skills.items() if len(owners[name]) == 1}
    clashes = {name: ", ".join(servers) for name, servers in owners.items() if len(servers) > 1}
    return found, [
        Problem(name, f"not served at /mcp: {names} have a skill of this name") for name, names in clashes.items()
    ]


def _dotted_names(kind: str, owners: Iterable[Owner]) -> tuple[dict[str, Owner], list[Problem]]:
    """Map `server.name` to each owner; a name with two owners is left out."""
    claims: dict[str, list[Owner]] = defaultdict(list)
    for owner in owners:
        claims[f"{owner[0].name}.{owner[1]}"].append(owner)
    several = {name: sorted(server.name for server, _ in those) for name, those in claims.items() if len(those) > 1}
    return {name: those[0] for name, those in claims.items() if name not in several}, [
        Problem(name, f"cannot be called by this name: {', '.join(names)} have {kind} of this name; use server__tool")
        for name, names in several.items()
    ]


def _public_key(kind: str, server: Server, key: str) -> str:
    if kind == "events":  # no model calls events, so that their names keep their dots
        return f"{server.name}__{key}"
    return public_name(server.name, key) if kind in NAMED else public_uri(server.name, key)


def _refusal_reason(kind: str, claimants: list[tuple[Server, str, Descriptor]]) -> str | None:
    if len(claimants) > 1:
        names = ", ".join(sorted({server.name for server, _, _ in claimants}))
        return f"not served at /mcp: {names} have {kind} of this name; they are served at /mcp/<server>"
    return None
