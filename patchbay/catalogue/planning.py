"""Plan the servers of the hub: the rows of the store, each with its origin and its configuration.

The configuration of a drop-in has priority, then the `mcps` variable, then the row's own. A drop-in that replaces
another definition inherits nothing from it or from its `mcps` entry. A row that cannot be used is a Refusal with a
sentence and does not affect others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import NamedTuple

from patchbay.boot import (
    ConfigurationDocument,
    is_readonly,
    read_document,
)
from patchbay.boot.built_in import read_built_in
from patchbay.boot.grants import NOTHING, Grants, parse_grants
from patchbay.catalogue.aggregate.hub_listing import NOT_READABLE, AggregateListing, HubListing, list_built_in
from patchbay.catalogue.contents.revocations import Revocations
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.rows import ROOM, ServerRow, is_of_room, name_problem, parse_row
from patchbay.catalogue.watching.client_files import server_of_part
from patchbay.catalogue.watching.drop_ins import DropIn, DropInReader
from patchbay.catalogue.watching.settling import CONFIG_ENDING
from patchbay.config import Config, Configs, Mcps, parse_listing
from patchbay.errors import ConfigError, ContentError
from patchbay.kind import CONFIGURATION_KIND, Kind, configured_kind, known_kinds
from patchbay.pins.offers import offer_cids
from patchbay.pins.records import pin_cids
from patchbay.store import Store
from patchbay.topics import ACCESS, BUILT_IN, DROP_INS, LISTING, MCPS, ROOT, SERVERS
from patchbay.upstreams.lists import snapshots

MOVES_PER_READ = 500
"""Number of moves of a name that are read at once."""

_RowSources = tuple[str, DropIn | None, Config | None, str | None]
"""What a row depends on: its CID, its file, its entry of the `mcps` variable, and the error in that entry."""

_LISTING = ConfigurationDocument(
    LISTING,
    lambda text: HubListing.of(parse_listing(text, LISTING)),
    # An unreadable listing may be meant to hide tools, so it hides all.
    HubListing(Listing(include=()), ()),
    NOT_READABLE,
)

_ACCESS: ConfigurationDocument[Grants | None] = ConfigurationDocument(
    ACCESS, lambda text: parse_grants(text, ACCESS), NOTHING, "it grants nothing, except to the operator"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server that cannot be built, and the reason."""

    row: ServerRow
    sentence: str


class Stamp(NamedTuple):
    """A state of the store: names of servers and drop-ins, lists that servers reported, revocations, single names,
    and the variable with the grants.
    """

    servers: Mapping[str, str]
    drop_ins: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]
    revoked: object
    single: tuple[str | None, ...]
    access: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned servers; `stamp` identifies the state of the store.

    `lists` are the lists that mounted servers and rooms reported last, and their pins, as CIDs by server. `listing` is
    the listing of the aggregate; `access` are the grants, and their problem, if any.
    """

    rows: Mapping[str, ServerRow | Refusal]
    readonly: bool
    mcps_problem: str | None
    stamp: Stamp
    listing: AggregateListing
    access: tuple[Grants | None, str | None]
    lists: Mapping[str, tuple[str, ...]]


class Planner:
    """Makes plans from a store. The `mcps` variable is parsed again only after its text has changed.

    Servers in `enable` are enabled even when their row disables them; their configuration may still disable them.
    """

    def __init__(self, store: Store, configs: Configs, enable: Iterable[str] = ()) -> None:
        self._store = store
        self._configs = configs
        self._enable = frozenset(enable)
        self._revocations = Revocations(store)
        self._drop_ins = DropInReader(store)
        self._planned: dict[str, tuple[_RowSources, ServerRow]] = {}
        self._read: tuple[bytes | None, Mcps] = (None, Mcps())
        self._mcps = ConfigurationDocument(MCPS, self._load_mcps, Mcps(), "it configures no server")
        self._mounted: tuple[Mcps, Sequence[Kind], dict[str, ServerRow | Refusal]] = (Mcps(), (), {})

    def stamp(self) -> Stamp:
        """Return what a plan depends on, as CIDs."""
        names, lists = self._store.names, _reported_lists(self._store)
        single = tuple(names.get(name) for name in (MCPS, LISTING, ROOT, BUILT_IN))
        return Stamp(
            names.all(SERVERS), names.all(DROP_INS), lists, self._revocations.state(), single, names.get(ACCESS)
        )

    def plan(self, refused: Mapping[str, str]) -> Plan:
        """Return the plan for now; `refused` maps files of the watched folder that are not servers to the reason."""
        stamp, (mcps, problem) = self.stamp(), read_document(self._store, self._mcps)
        rows = {**self._mounted_rows(mcps), **self._rows(stamp.servers, self._drop_ins.read(stamp.drop_ins), mcps)}
        for file, sentence in refused.items():
            stem = file.removesuffix(CONFIG_ENDING) if file.endswith(CONFIG_ENDING) else PurePosixPath(file).stem
            stem = server_of_part(file) or stem
            if stem not in rows and name_problem(stem) is None:
                rows[stem] = Refusal(ServerRow(stem, CONFIGURATION_KIND, "", origin=SERVERS + file), sentence)
        checked = self._refuse_revoked(self._refuse_bad_names(rows))
        access, known = read_document(self._store, _ACCESS), read_built_in(self._store)
        usable = [row for row in checked.values() if isinstance(row, ServerRow)]
        listing = list_built_in(*read_document(self._store, _LISTING), usable, known)
        return Plan(checked, is_readonly(self._store), problem, stamp, listing, access, stamp.lists)

    def _mounted_rows(self, mcps: Mcps) -> Mapping[str, ServerRow | Refusal]:
        """Return the servers that an entry of `mcps` alone describes; recognized again only after a change."""
        kinds = known_kinds()
        if self._mounted[0] is not mcps or self._mounted[1] != kinds:
            self._mounted = mcps, kinds, _mounted_rows(mcps)
        return self._mounted[2]

    def _rows(
        self, names: Mapping[str, str], files: Mapping[str, DropIn], mcps: Mcps
    ) -> dict[str, ServerRow | Refusal]:
        """Return the rows that names in the store point to. A row is made again only after its sources have changed."""
        sources, blobs = {}, self._store.blobs
        for full, cid in names.items():
            name = full.removeprefix(SERVERS)
            sources[name] = cid, files.get(name), mcps.configs.get(name), mcps.broken.get(name)
        rows: dict[str, ServerRow | Refusal] = {
            name: known[1] for name, known in self._planned.items() if sources.get(name) == known[0]
        }
        fresh = {name: found for name, found in sources.items() if name not in rows}
        contents = blobs.get_many(cid for cid, *_ in fresh.values()) if fresh else {}
        for name, (cid, file, _, _) in fresh.items():
            try:
                row = parse_row(name, contents.get(cid) or blobs.get(cid))
            except ContentError as problem:
                rows[name] = Refusal(ServerRow(name, CONFIGURATION_KIND, ""), problem.message)
            else:
                rows[name] = self._with_origin(row, file, mcps)
        # What could not be read, or depends on other contents, is read again for the next plan.
        self._planned = {
            name: (found, made)
            for name, found in sources.items()
            if isinstance(made := rows[name], ServerRow) and not ((file := found[1]) and file.base)
        }
        return rows

    def _with_origin(self, row: ServerRow, file: DropIn | None, mcps: Mcps) -> ServerRow | Refusal:
        """Return a row of the store with its origin and its configuration."""
        if row.name in self._enable:
            row = replace(row, enabled=True)
        if is_of_room(row):
            return replace(row, origin=ROOM)
        if file is None or file.definition_cid != row.definition_cid:
            return _with_mcps_config(row, mcps)
        replaced = self._replaced(row.name, file)
        row = replace(row, origin=SERVERS + file.file, replaces=replaced)
        # The configuration of the replaced server does not apply to this definition.
        return row if replaced or row.config_cid else _with_mcps_config(row, mcps)

    def _replaced(self, name: str, file: DropIn) -> str | None:
        """Return the definition that a drop-in with another content replaces; None without one."""
        try:
            base = parse_row(name, self._store.blobs.get(file.base)) if file.base else None
        except ContentError:
            return file.base
        return base.definition_cid if base and base.definition_cid != file.definition_cid else None

    def _refuse_bad_names(self, rows: Mapping[str, ServerRow | Refusal]) -> dict[str, ServerRow | Refusal]:
        """Refuse rows whose name is reserved or differs from an earlier one by case alone."""
        found = dict(rows)
        for name, row in rows.items():
            origin = row.origin if isinstance(row, ServerRow) else row.row.origin
            if sentence := name_problem(name, origin):
                found[name] = Refusal(_row_of(row), sentence)
        alike: dict[str, list[str]] = defaultdict(list)
        for name in rows:
            alike[name.lower()].append(name)
        for names in alike.values() if len(alike) < len(rows) else ():
            # The earlier name stays: a file saved later cannot take down a running server.
            first = names[0] if len(names) == 1 else min(sorted(names), key=self._created_at)
            sentence = f"its name differs from that of {first} by case alone: rename one of the two"
            found |= {name: Refusal(_row_of(rows[name]), sentence) for name in names if name != first}
        return found

    def _refuse_revoked(self, rows: Mapping[str, ServerRow | Refusal]) -> dict[str, ServerRow | Refusal]:
        """Refuse rows that are revoked, by name or by a content that they use."""
        found = dict(rows)
        if not self._revocations.state():
            return found
        for name, row in rows.items():
            revocation = self._revocations.find_for_row(row) if isinstance(row, ServerRow) else None
            if revocation is not None:
                found[name] = Refusal(_row_of(row), revocation.sentence)
        return found

    def _created_at(self, name: str) -> float:
        """Return the sequence number of the move that created this name; infinite without one."""
        since, before = math.inf, None
        while moves := self._store.names.past(SERVERS + name, MOVES_PER_READ, before):
            for move in moves:
                if move.cid is None:
                    return since
                since = move.seq
            before = moves[-1].seq
        return since

    def _load_mcps(self, text: bytes | None) -> Mcps:
        if text != self._read[0]:
            self._read = (text, self._configs.load_mcps(text))
        return self._read[1]


def _reported_lists(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the CIDs of what mounted servers and rooms reported last, and of their pins, by server."""
    found = snapshots.stored_cids(store) | offer_cids(store)
    return found | {server: (*found.get(server, ()), cid) for server, cid in pin_cids(store).items()}


def check_enabled(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError when the setting `enable` names an unknown server."""
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 3)
            hint = f"; did you mean {', '.join(close)}?" if close else f"; there are {', '.join(known)}"
            raise ConfigError(
                "the setting enable", "", f"expected names of servers; there is no server {name[:128]!r}{hint}"
            )


def _mounted_rows(mcps: Mcps) -> dict[str, ServerRow | Refusal]:
    """Return the servers that an entry of the `mcps` variable alone describes: mounted servers."""
    rows: dict[str, ServerRow | Refusal] = {}
    for name, config in mcps.configs.items():
        found = configured_kind(config.fields)
        if found is not None and found[1].by_variable:
            rows[name] = ServerRow(name, CONFIGURATION_KIND, config.cid, origin=MCPS)
    return rows


def _with_mcps_config(row: ServerRow, mcps: Mcps) -> ServerRow | Refusal:
    if row.is_configuration:
        return row
    if row.name in mcps.broken:
        return Refusal(row, mcps.broken[row.name])
    found = mcps.configs.get(row.name)
    return replace(row, config_cid=found.cid) if found else row


def _row_of(row: ServerRow | Refusal) -> ServerRow:
    return row.row if isinstance(row, Refusal) else row
