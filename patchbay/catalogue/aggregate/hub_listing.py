"""Which servers and tools the list of all servers at /mcp has: the variable `listing`, and the built-in servers.

The operator has not chosen the servers that a hub comes with. So a new hub lists built-in servers at /mcp only where
they are switched in: `built_in` names them; without that member, a pattern of `include` or `always` does, or somebody
has switched on what is off at first. A hub that an earlier version began lists all of them until `built_in` says
otherwise. A server that is not listed can be used by the names of its entries all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.boot.built_in import NONE, BuiltIn
from patchbay.catalogue.aggregate.public_names import has_server_part
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.rows import BOOT, ServerRow
from patchbay.descriptors import Problem
from patchbay.patterns.entries import fits
from patchbay.suggestions import did_you_mean, find_similar_names
from patchbay.topics import LISTING

LISTING_PLACES = ("listing.", LISTING)
"""How the places of problems of the variable `listing` begin."""

NOT_READABLE = "no tool is served at /mcp"
"""What holds while the variable `listing` cannot be read: it may be meant to hide tools."""


@dataclass(frozen=True)
class HubListing:
    """The variable `listing`: `tools` selects tools of all servers; `built_in` are patterns of names of servers, or
    None where the variable does not say which built-in servers are listed.
    """

    tools: Listing = field(default_factory=Listing)
    built_in: tuple[str, ...] | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> HubListing:
        """Build the listing from the fields of a valid variable."""
        return cls(Listing.of(fields), tuple(fields["built_in"]) if "built_in" in fields else None)

    def lists_built_in(self, name: str, known: BuiltIn) -> bool:
        """Whether /mcp lists the built-in server of this name."""
        if self.built_in is not None:
            return any(fits(pattern, name) for pattern in self.built_in)
        patterns = (*self.tools.include, *self.tools.always)
        return known.are_listed or name in known.off or any(has_server_part(pattern, name) for pattern in patterns)


@dataclass(frozen=True)
class AggregateListing:
    """How the servers of a hub are listed together: `unlisted` are the servers that are in no list.

    `problem` is the fault of the variable `listing`, if any; `built_in` are the names of the built-in servers.
    """

    variable: HubListing = field(default_factory=HubListing)
    problem: str | None = None
    built_in: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()

    def problems(self) -> Iterator[Problem]:
        """Yield problems for the operator: an unusable variable, a pattern that matches no built-in server."""
        if self.problem is not None:
            yield Problem(LISTING, f"the variable listing cannot be used: {self.problem}")
        for pattern in self.variable.built_in or ():
            if pattern != "*" and not any(fits(pattern, name) for name in self.built_in):
                close = did_you_mean(find_similar_names(pattern.strip("*?"), sorted(self.built_in)))
                yield Problem("listing.built_in", f"no built-in server matches {pattern}{close}")


def list_built_in(
    variable: HubListing, problem: str | None, rows: Iterable[ServerRow], known: BuiltIn = NONE
) -> AggregateListing:
    """Return how servers with these rows are listed."""
    built_in = frozenset(row.name for row in rows if row.origin == BOOT and known.has(row.name, row.definition_cid))
    unlisted = frozenset(name for name in built_in if not variable.lists_built_in(name, known))
    return AggregateListing(variable, problem, built_in, unlisted)
