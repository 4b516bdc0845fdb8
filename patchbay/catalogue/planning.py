"""Which servers there are to be: the rows of the store, each with its origin and its configuration.

Rules: a drop-in's own configuration wins, then that of the `mcps` variable, then the row's; a drop-in that replaces
another definition takes nothing over from it, and none of its entry in `mcps`; a row that cannot be used is a Refusal
with a sentence, and all others stand.
Sources: REQUIREMENTS V-C2, VWR-13, T1.3, T1.8; THREATS S18; DESIGN section 8 (reserved names).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePosixPath

from patchbay.boot import (
    Document,
    in_force,
    is_readonly,
)
from patchbay.catalogue.contents.revocations import Revocations
from patchbay.catalogue.listing import Listing
from patchbay.catalogue.rows import (
    ServerRow,
    name_problem,
    parse_row,
)
from patchbay.catalogue.watching.drop_ins import DropIn, drop_ins
from patchbay.catalogue.watching.settling import CONFIG
from patchbay.config import Configs, Mcps, parse_listing
from patchbay.errors import ConfigError, ContentError
from patchbay.kind import CONFIGURATION_KIND, configured_kind
from patchbay.kinds.mount import snapshots
from patchbay.store import Store
from patchbay.topics import DROP_INS, LISTING, MCPS, ROOT, SERVERS

PAGE = 500
"""How many moves of a name are read at once."""

_LISTING = Document(
    LISTING,
    lambda text: Listing.of(parse_listing(text, LISTING)),
    # It may be to hide some.
    Listing(include=()),
    "no tool is served at /mcp",
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server that cannot be made, and why."""

    row: ServerRow
    sentence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The servers that are to be; `stamp` says of which state of the store.

    `lists` is what mounted servers listed last, as CIDs by server. `listing` is how they are listed together, and why
    that cannot be known.
    """

    rows: Mapping[str, ServerRow | Refusal]
    readonly: bool
    mcps_problem: str | None
    stamp: tuple[object, ...]
    listing: tuple[Listing, str | None]
    lists: Mapping[str, tuple[str, ...]]


class Planner:
    """Reads plans out of a store. The `mcps` variable is parsed again only when its text is another.

    The servers that `enable` names are on, although their rows switch them off; a configuration still may.
    """

    def __init__(self, store: Store, configs: Configs, enable: Iterable[str] = ()) -> None:
        self._store = store
        self._configs = configs
        self._enable = frozenset(enable)
        self._revocations = Revocations(store)
        self._read: tuple[bytes | None, Mcps] = (None, Mcps())
        self._mcps = Document(MCPS, self._loaded, Mcps(), "no server is configured by it")

    def stamp(self) -> tuple[object, ...]:
        """What a plan depends on, as CIDs."""
        names = self._store.names
        single = (names.get(MCPS), names.get(LISTING), names.get(ROOT))
        revoked = self._revocations.state()
        return (names.all(SERVERS), names.all(DROP_INS), snapshots.names(self._store), revoked, *single)

    def plan(self, refused: Mapping[str, str]) -> Plan:
        """The plan for now; `refused` are files of the watched folder that are no servers, and why."""
        stamp, (mcps, problem) = self.stamp(), in_force(self._store, self._mcps)
        rows = {**_mounts(mcps), **dict(self._rows(mcps))}
        for file, sentence in refused.items():
            stem = file.removesuffix(CONFIG) if file.endswith(CONFIG) else PurePosixPath(file).stem
            if stem not in rows and name_problem(stem) is None:
                rows[stem] = Refusal(ServerRow(stem, CONFIGURATION_KIND, "", origin=SERVERS + file), sentence)
        checked, lists = self._unrevoked(self._checked_names(rows)), snapshots.names(self._store)
        return Plan(checked, is_readonly(self._store), problem, stamp, in_force(self._store, _LISTING), lists)

    def _rows(self, mcps: Mcps) -> Iterator[tuple[str, ServerRow | Refusal]]:
        files = drop_ins(self._store)
        for full, cid in self._store.names.all(SERVERS).items():
            name = full.removeprefix(SERVERS)
            try:
                row = parse_row(name, self._store.blobs.get(cid))
            except ContentError as problem:
                yield name, Refusal(ServerRow(name, CONFIGURATION_KIND, ""), problem.message)
                continue
            file = files.get(name)
            own = file is not None and file.definition_cid == row.definition_cid
            if name in self._enable:
                row = replace(row, enabled=True)
            if file is None or not own:
                yield name, _configured(row, mcps)
                continue
            replaced = self._replaced(name, file)
            row = replace(row, origin=SERVERS + file.file, replaces=replaced)
            # What was written for the server that the file replaces is not about this definition.
            yield name, row if replaced or row.config_cid else _configured(row, mcps)

    def _replaced(self, name: str, file: DropIn) -> str | None:
        """The definition that a drop-in of another content stands before; None where there is none."""
        try:
            base = parse_row(name, self._store.blobs.get(file.base)) if file.base else None
        except ContentError:
            return file.base
        return base.definition_cid if base and base.definition_cid != file.definition_cid else None

    def _checked_names(self, rows: Mapping[str, ServerRow | Refusal]) -> dict[str, ServerRow | Refusal]:
        """The rows, refusing those whose name is reserved or differs from an earlier one by case alone."""
        alike: dict[str, list[str]] = defaultdict(list)
        for name in sorted(rows):
            alike[name.lower()].append(name)
        found: dict[str, ServerRow | Refusal] = {}
        for names in alike.values():
            # Whoever was there first stays: a file saved later cannot take a live server down.
            first = names[0] if len(names) == 1 else min(names, key=self._since)
            for name in names:
                sentence = name_problem(name, _row(rows[name]).origin)
                if name != first:
                    sentence = f"its name differs from that of {first} by case alone: rename one of the two"
                found[name] = Refusal(_row(rows[name]), sentence) if sentence else rows[name]
        return found

    def _unrevoked(self, rows: Mapping[str, ServerRow | Refusal]) -> dict[str, ServerRow | Refusal]:
        """The rows, refusing those that are revoked, by name or by a content that they are made of."""
        found = dict(rows)
        if not self._revocations.state():
            return found
        for name, row in rows.items():
            revocation = self._revocations.of_row(row) if isinstance(row, ServerRow) else None
            if revocation is not None:
                found[name] = Refusal(_row(row), revocation.sentence)
        return found

    def _since(self, name: str) -> float:
        """The seq of the move since which there has been a row of this name; infinite without one."""
        since, before = math.inf, None
        while moves := self._store.names.past(SERVERS + name, PAGE, before):
            for move in moves:
                if move.cid is None:
                    return since
                since = move.seq
            before = moves[-1].seq
        return since

    def _loaded(self, text: bytes | None) -> Mcps:
        if text != self._read[0]:
            self._read = (text, self._configs.load_mcps(text))
        return self._read[1]


def check_enabled(names: Iterable[str], known: Iterable[str]) -> None:
    """Raises ConfigError when the setting `enable` names a server that there is not."""
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 3)
            hint = f"; did you mean {', '.join(close)}?" if close else f"; there are {', '.join(known)}"
            raise ConfigError(
                "the setting enable", "", f"expected names of servers; there is no server {name[:128]!r}{hint}"
            )


def _mounts(mcps: Mcps) -> dict[str, ServerRow | Refusal]:
    """The servers that an entry of the `mcps` variable alone makes: those that are mounted."""
    rows: dict[str, ServerRow | Refusal] = {}
    for name, config in mcps.configs.items():
        found = configured_kind(config.fields)
        if found is not None and found[1].by_variable:
            rows[name] = ServerRow(name, CONFIGURATION_KIND, config.cid, origin=MCPS)
    return rows


def _configured(row: ServerRow, mcps: Mcps) -> ServerRow | Refusal:
    if row.is_configuration:
        return row
    if row.name in mcps.broken:
        return Refusal(row, mcps.broken[row.name])
    found = mcps.configs.get(row.name)
    return replace(row, config_cid=found.cid) if found else row


def _row(row: ServerRow | Refusal) -> ServerRow:
    return row.row if isinstance(row, Refusal) else row
