"""Which server owns a URI where several servers are served as one, such as at `/mcp`.

The rules, in order:

* The hub's own schemes (HUB_SCHEMES) are never read from a mounted server. An app (`ui://`) is at a URI that names its
  server, so that it needs no rule.
* Servers of the hub come before mounted servers, which list what strangers choose, and those before rooms. Mounted
  servers are in the order in which the hub first saw the entry; what a mount lists later takes nothing from another
  server. Toolsets come last: their entries are those of other servers.
* A template without a literal scheme (`{+any}`) is not taken, nor is a template for one of the hub's schemes.
* In a scheme of its own (not one of SHARED_SCHEMES), a server keeps the part that it uses: a template of a later mount
  is not taken when it covers that part, and an exact URI of a later mount is not taken when an earlier template matches
  it. In a shared scheme, exact URIs go before templates of mounts.

What is not taken is served by the endpoint of its own server, and `refused` has the reasons for the pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from patchbay.app_uris import APP_SCHEME, public_uri
from patchbay.catalogue.reading.uri_templates import MAX_URI_CHARACTERS, UriTemplate, compile_template
from patchbay.catalogue.servers.rows import BOOT, is_room_name
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Problem

HUB_SCHEMES = frozenset(("cid", "server", "variable", "skill", "ui"))
"""The schemes of the hub itself, in lower case: their bytes never come from a mounted server."""

SHARED_SCHEMES = frozenset(("http", "https", "file", "data", "ftp", "git", "urn"))
"""Schemes that belong to no single server (RFC 3986 and MCP specification, server/resources, common URI schemes)."""

MAX_COMPARED_TEMPLATES = 64
"""Templates of others that one exact URI is compared with; behind more of them, a mount's URI is not taken."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"//([^/?#]*)")

Owner = tuple[Server, str]
"""A server, and the URI or URI template that it has there."""


def scheme_of(uri: str) -> str:
    """Return the literal scheme of a URI or URI template in lower case; empty without one."""
    found = _SCHEME.match(uri)
    return found[1].lower() if found else ""


class _Area(NamedTuple):
    """The part of a scheme that an entry covers; without an `authority` the whole scheme."""

    scheme: str
    authority: str | None

    def overlaps(self, other: str | None) -> bool:
        return self.authority is None or other is None or self.authority == other


def _area_of(key: str) -> _Area:
    scheme = scheme_of(key)
    found = _AUTHORITY.match(key, len(scheme) + 1)
    return _Area(scheme, None if found is None or "{" in found[1] else found[1].lower())


@dataclass(frozen=True)
class _Claim:
    """An entry of a server: its key there, its public key, and what comes first among several."""

    server: Server
    key: str
    public: str
    is_template: bool

    @cached_property
    def order(self) -> tuple[int, float, bool, str, str]:
        """The place of a claim: servers of the hub, mounts, rooms, toolsets; first sight, exact URIs, names.

        An entry of a toolset is another server's, so that the toolset has it only where that server is not there.
        """
        since = self.server.first_seen.get(self.key, 0.0)
        rank = 2 + is_room_name(self.server.name) if self.server.is_mounted else int(self.server.origin != BOOT)
        rank = 4 if self.server.is_composed else rank
        return (rank, since, self.is_template, self.server.name, self.key)

    @cached_property
    def area(self) -> _Area:
        return _area_of(self.public)

    @cached_property
    def compiled(self) -> UriTemplate:
        return compile_template(str(self.server.templates[self.key].target.get("matches", self.key)))

    def matches(self, uri: str) -> bool:
        """Whether a template matches a URI, also one that its server then refuses."""
        return len(uri) <= MAX_URI_CHARACTERS and self.compiled.pattern.fullmatch(uri) is not None


@dataclass
class UriOwners:
    """The owners of the URIs and URI templates of some servers, by the public URI or template.

    `refused` has the entries that another server keeps, by the server that does not get them.
    """

    resources: dict[str, Owner] = field(default_factory=dict)
    templates: dict[str, Owner] = field(default_factory=dict)
    refused: dict[str, list[Problem]] = field(default_factory=dict)
    _taken: dict[str, list[_Claim]] = field(default_factory=lambda: defaultdict(list))
    _areas: dict[str, dict[str | None, Server]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, servers: Iterable[Server]) -> UriOwners:
        """Decide the owners of everything that these servers list."""
        owners = cls()
        for claim in sorted(_claims(servers), key=lambda claim: claim.order):
            reason = owners._refusal_reason(claim)
            if reason and claim.server.is_composed:
                continue  # the server behind the toolset, or another toolset, gives the same
            if reason:
                owners.refused.setdefault(claim.server.name, []).append(Problem(claim.public, reason))
            else:
                owners._take(claim)
        return owners

    def find(self, uri: str) -> Server | None:
        """Return the server that a URI is read from; None for the hub itself, an app, and a URI of no server."""
        found = self.resources.get(uri)
        if found is not None:
            return None if uri.startswith(APP_SCHEME) else found[0]
        scheme = scheme_of(uri)
        if scheme in HUB_SCHEMES:
            return None
        return next((one.server for one in self._taken.get(scheme, ()) if one.matches(uri)), None)

    def _refusal_reason(self, claim: _Claim) -> str | None:
        server, scheme = claim.server, claim.area.scheme
        table = self.templates if claim.is_template else self.resources
        same = table.get(claim.public)
        if same is not None:
            return _kept_by(same[0], server)
        is_app = claim.key.startswith(APP_SCHEME)
        if scheme in HUB_SCHEMES and not is_app and (claim.is_template or server.is_mounted):
            return f"not served at /mcp: the scheme {scheme} belongs to the hub; {_elsewhere(server)}"
        if claim.is_template and not scheme:
            return f"not served at /mcp: the template has no literal scheme; {_elsewhere(server)}"
        earlier = None if is_app or not server.is_mounted else self._earlier_owner(claim)
        return _kept_by(earlier, server) if earlier is not None else None

    def _earlier_owner(self, claim: _Claim) -> Server | None:
        """Return the other server that came first in the part of a scheme that a mount claims, or None."""
        scheme, name = claim.area.scheme, claim.server.name
        is_shared = scheme in SHARED_SCHEMES
        if claim.is_template:
            known = {} if is_shared else self._areas.get(scheme, {})
            return next(
                (one for part, one in known.items() if one.name != name and claim.area.overlaps(part)),
                None,
            )
        others = [
            one
            for one in self._taken.get(scheme, ())
            if one.server.name != name
            and one.area.overlaps(claim.area.authority)
            and not (is_shared and one.server.is_mounted)
        ]
        if len(others) > MAX_COMPARED_TEMPLATES:
            return others[0].server
        return next((one.server for one in others if one.matches(claim.public)), None)

    def _take(self, claim: _Claim) -> None:
        table = self.templates if claim.is_template else self.resources
        table[claim.public] = (claim.server, claim.key)
        self._areas[claim.area.scheme].setdefault(claim.area.authority, claim.server)
        if claim.is_template:
            self._taken[claim.area.scheme].append(claim)


def _claims(servers: Iterable[Server]) -> Iterator[_Claim]:
    for server in servers:
        lists: tuple[tuple[Mapping[str, object], bool], ...] = ((server.resources, False), (server.templates, True))
        for entries, is_template in lists:
            for key in entries:
                yield _Claim(server, key, public_uri(server.name, key), is_template)


def _kept_by(owner: Server, server: Server) -> str:
    return f"not served at /mcp: {owner.name} had it first, before {server.name}; {_elsewhere(server)}"


def _elsewhere(server: Server) -> str:
    return f"/mcp/{server.name} serves it"
