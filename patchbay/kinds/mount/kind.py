"""The kind of mounted servers: the last lists of the upstream, under the rules of the configuration.

The upstream's lists are shown unchanged, without the entries that its pins hold; an entry that cannot be served is a
Problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from patchbay.client.applications.client_entries import UNUSED, is_client_entry, translate
from patchbay.descriptors import Problem
from patchbay.errors import ConfigError
from patchbay.kind import Configuration, ConfiguredServer, Confinement, Fields, Kind, ServerParts
from patchbay.pins.documents import INTRODUCTION
from patchbay.shaping.own_tools import check_own_tools, shape_own_tools
from patchbay.upstreams.configuration import MOUNT_FIELDS, UPSTREAM, mount_of
from patchbay.upstreams.connections.description import mount_confinement
from patchbay.upstreams.connections.handler import upstream_handler
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.lists.snapshots import PINNED_LISTS, SIGN_IN, Snapshot, listed_entries, sign_in_tool

SHARED_FIELDS = ("environment", "writes", "memory")
"""The fields of a mount that other kinds of servers have too."""

OWN_FIELDS = tuple(name for name in MOUNT_FIELDS if name not in SHARED_FIELDS)
FIELDS = frozenset(
    [
        *MOUNT_FIELDS,
        *("$schema", "kind", "title", "description", "instructions", "icons", "enabled", "mcp_enabled", "timeout"),
        "progress_timeout",
        *("tools", "limits", "listing", "activity", "mask_errors"),
    ]
)


def _check(fields: Fields, where: str) -> None:
    if "address" not in fields:
        raise ConfigError(where, "address", "expected the address of the server that is mounted, or @PROFILE")
    check_own_tools(fields, where)


def _make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of a mounted server. Raises ConfigError for an invalid address or header."""
    if server.connections is None:
        raise ConfigError(
            server.origin, "kind", "expected no mounted server here: this hub connects to no other server"
        )
    standing = server.connections.of(mount_of(server.name, server.fields, server.origin))
    last = standing.last() or Snapshot(standing.mount.digest)
    found, problems = last.descriptors()
    pins = standing.check_pins(listed_entries(last, found))
    for kind in PINNED_LISTS:
        for name in [name for held, name in pins.held if held == kind]:
            del found[kind][name]
    if standing.accounts is not None and standing.accounts.way.needs_caller_for_lists and not last.revision:
        found["tool"][SIGN_IN] = sign_in_tool(server.name)
    own = shape_own_tools(server.name, server.fields, found["tool"], upstream_handler(standing))
    introduction = {**last.info, "instructions": last.instructions}
    if INTRODUCTION in pins.held:
        introduction = dict(standing.approved_introduction())
    return ServerParts(
        own.handler,
        own.tools,
        found["resource"],
        found["template"],
        found["prompt"],
        (
            *problems,
            *own.problems,
            *_unused_members(server.fields),
            *_problems_of_program(standing),
        ),
        title=_text(introduction.get("title")),
        description=_text(introduction.get("description")) or "",
        instructions=introduction.get("instructions"),
        icons=introduction.get("icons"),
        pins=pins,
        upstream=standing,
        offers=last.capabilities,
        via=(standing.id, *last.via),
        events=found["event"] if standing.accounts is None else {},
        first_seen=last.first_seen,
    )


def _unused_members(fields: Fields) -> Iterator[Problem]:
    """Yield a problem for each member of a client's entry that has no meaning here."""
    for member, reason in fields.get(UNUSED, {}).items():
        yield Problem(member, f"not used: {reason}")


def _problems_of_program(standing: StandingConnection) -> Iterator[Problem]:
    """Yield the problems of how a program is started."""
    yield from _refused_places(standing)
    yield from _exposed_variables(standing)


def _refused_places(standing: StandingConnection) -> Iterator[Problem]:
    """Yield a problem for each place of the hub itself that the configuration of a confined program names."""
    confinement = standing.confinement if standing.is_program else None
    refused = confinement.refused_places() if confinement is not None else []
    if confinement is not None and refused and confinement.is_on:
        for field, place in refused:
            yield Problem(field, f"{place} is not opened: no mounted program may use the files of the hub itself")


def _exposed_variables(standing: StandingConnection) -> Iterator[Problem]:
    """Yield a problem for each secret that stands on the command line of a program."""
    for name in standing.mount.exposed_variables:
        yield Problem(
            "address",
            f"every user of this machine can see the value of ${{{name}}} in the list of processes: write it into"
            " environment, if the program reads it from a variable",
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _confine(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    return mount_confinement(upstream.reach, upstream.confinement) if upstream is not None else mount_confinement(None)


KIND = Kind(
    UPSTREAM,
    "Definition as JSON",
    language="json",
    is_configuration=True,
    confine=_confine,
    configuration=Configuration(
        OWN_FIELDS,
        FIELDS,
        "a mounted server",
        _check,
        _make_parts,
        reaches="it mounts a server",
        by_variable=True,
        required="address",
        recognizes=is_client_entry,
        translate=partial(translate, takes_rights=True),
    ),
)
