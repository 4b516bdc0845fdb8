"""Compares what a load was answered with what the store has, and measures how long it was not normal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from benchmarks.faults.cluster import Cluster
from benchmarks.faults.load import LARGE_BYTES
from benchmarks.faults.log import BROKEN, DONE, ENDLESS, REFUSED, SLOW_SECONDS, Log
from patchbay.access.audit.chain import read_lines, texts_of
from patchbay.access.audit.packed_rows import CID_PREFIX
from patchbay.access.audit.verification import verify as verify_audit
from patchbay.rooms.record.verification import verify as verify_room
from patchbay.store import Store
from patchbay.stores.postgresql import PostgresqlStore
from tests.rooms.people import rooms_of

STREAMS = ("room stream", "subscription")
"""Operations that last as long as the load."""

LARGE = "large content"
"""The kind of operations that need the bucket."""

MAX_PAST = 1_000_000


@dataclass
class Figures:
    """What one fault did. `seconds` is the time from its end until every operation was as usual again.

    `acknowledged` counts writes and answered calls, `refused` operations that ended with an error, of the hub or of
    the connection. `faults` has a sentence for each wrong, lost or doubled one, and `late` for the last operation that
    was not as usual.
    """

    acknowledged: int = 0
    wrong: int = 0
    lost: int = 0
    doubled: int = 0
    endless: int = 0
    refused: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    refusals: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    late: str = ""

    def add(self, kind: str, sentence: str) -> None:
        """Count a fault of a kind: `wrong`, `lost` or `doubled`."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.faults.append(f"{kind}: {sentence}")


def check(log: Log, cluster: Cluster, over: float, gone: Set[int] = frozenset(), lasts: bool = False) -> Figures:
    """Return the figures of a load whose hubs have ended. `over` is when the fault ended, `gone` are killed nodes;
    `lasts` says that the bucket stays full.
    """
    figures = Figures()
    for sentence in log.wrong:
        figures.add("wrong", sentence)
    with closing(PostgresqlStore(cluster.store, blobs=cluster.blobs)) as store:
        check_names(figures, log, store)
        check_contents(figures, log, store)
        check_room(figures, log, store, gone)
        check_audit(figures, log, store, gone)
    check_subscribers(figures, log, gone)
    endings = Counter(one.outcome for one in log.operations if one.node not in gone)
    figures.endless, figures.refused = endings[ENDLESS], endings[REFUSED] + endings[BROKEN]
    figures.refusals = dict(Counter(one.kind for one in log.operations if one.outcome != DONE and one.node not in gone))
    figures.acknowledged = log.count_acknowledged()
    figures.longest = round(max(one.ended - one.begun for one in log.operations if one.kind not in STREAMS), 1)
    measure_seconds(figures, log, over, gone, lasts)
    return figures


def check_names(figures: Figures, log: Log, store: Store) -> None:
    """Each acknowledged value of a name is in its history once, and only values that were sent, in order."""
    for name, sent in log.tried.items():
        cids = [change.cid for change in reversed(store.names.past(name, MAX_PAST)) if change.cid]
        found = [int(store.blobs.get(cid)) for cid in cids]
        count_each(figures, name, log.written.get(name, []), found)
        for number in set(found) - set(sent):
            figures.add("wrong", f"{name} was {number}, which was not sent")
        if found != sorted(found):
            figures.add("wrong", f"{name} went back: {found}")


def check_contents(figures: Figures, log: Log, store: Store) -> None:
    """Each acknowledged content is there; the large ones can be read."""
    for cid in store.blobs.missing(log.contents):
        figures.add("lost", f"the content {cid}")
    for cid, size in log.contents.items():
        if size == LARGE_BYTES and len(store.blobs.get(cid)) != size:
            figures.add("wrong", f"the content {cid} has another size")


def check_room(figures: Figures, log: Log, store: Store, gone: Set[int]) -> None:
    """Each acknowledged message is in the log once, and every living node has told it once to its listener."""
    with rooms_of(store) as rooms:
        room = rooms.open("kept")
        verdict = verify_room(room.lines(), room.head)
        found = [one.entry.envelope["id"] for one in room.entries(0, MAX_PAST)]
    if not verdict.ok:
        figures.add("wrong", f"the log of the room: {verdict}")
    count_each(figures, "a message", log.envelopes, found)
    for node, heard in enumerate(log.heard):
        if node not in gone:
            times = [id for id, moments in heard.items() for _ in moments]
            count_each(figures, f"a message to the listener of node {node}", log.envelopes, times)


def check_audit(figures: Figures, log: Log, store: Store, gone: Set[int]) -> None:
    """The chain verifies, and has one row of each answered call. A killed node loses its newest rows."""
    lines = list(read_lines(store.journal))
    verdict = verify_audit(texts_of(lines), is_running=True)
    if not verdict.ok:
        figures.add("wrong", f"the audit chain: {verdict.sentence()}")
    rows = rows_of_calls(lines)
    wanted = [arguments_cid(text) for node, text in log.audited if node not in gone]
    count_each(figures, "the audit row of a call", wanted, [row["arguments"] for row in rows])
    for row in map(orjson.loads, lines):
        if row["kind"] == "dropped":
            figures.add("lost", f"{row['count']} audit rows: {row['reason']}")


def rows_of_calls(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the audit rows of the calls of a load, from the lines of the chain."""
    return [row for row in map(orjson.loads, lines) if row.get("name") == "say"]


def is_audited(log: Log, lines: Iterable[bytes]) -> bool:
    """Whether each answered call of a load has a row in the lines of the chain.

    The number of rows does not tell: a call whose answer did not arrive has a row too.
    """
    return {arguments_cid(text) for _, text in log.audited} <= {row["arguments"] for row in rows_of_calls(lines)}


def check_subscribers(figures: Figures, log: Log, gone: Set[int]) -> None:
    """The subscriber at every living node has seen the newest version of the server, and never an older one again."""
    for node, seen in enumerate(log.seen):
        if node in gone:
            continue
        if log.changes and max(seen, default=0) < max(log.changes):
            figures.add(
                "lost", f"version {max(log.changes)} for the subscriber of node {node}, who has {max(seen, default=0)}"
            )
        if list(seen) != sorted(seen):
            figures.add("wrong", f"the versions of node {node} were {list(seen)}")


def arguments_cid(text: str) -> str:
    """Return the CID of the arguments of a call of `say` as audit rows have it."""
    return CID_PREFIX + sha256(orjson.dumps({"text": text})).hexdigest()


def count_each(figures: Figures, what: str, wanted: Iterable[object], found: Iterable[object]) -> None:
    """Count what is wanted and not found as lost, and what is found more than once as doubled."""
    counts = Counter(found)
    for one in wanted:
        if not counts[one]:
            figures.add("lost", f"{what}: {one}")
    for one, number in counts.items():
        if number > 1:
            figures.add("doubled", f"{what}: {one} is there {number} times")


def measure_seconds(figures: Figures, log: Log, over: float, gone: Set[int], lasts: bool) -> None:
    """Measure how long after the end of the fault the last operation was refused or slow, at a living node.

    Large contents do not count while the fault `lasts`: the bucket stays full.
    """
    moments = {over: ""}
    for one in log.operations:
        if one.node in gone or one.kind in STREAMS or (lasts and one.kind == LARGE):
            continue
        if one.outcome != DONE or one.ended - one.begun > SLOW_SECONDS:
            moments[one.ended] = (
                f"{one.kind} at node {one.node}, {one.ended - one.begun:.1f} s, {one.outcome} {one.reason}"
            )
    for node, heard in enumerate(log.heard):
        for id, sent in log.envelopes.items():
            first = min(heard.get(id, [sent]))
            if node not in gone and first - sent > SLOW_SECONDS:
                moments[first] = f"a message came to node {node} after {first - sent:.1f} s"
    for node, seen in enumerate(log.seen):
        for number, changed in log.changes.items():
            first = min((moment for version, moment in seen.items() if version >= number), default=changed)
            if node not in gone and first - changed > SLOW_SECONDS:
                moments[first] = f"version {number} came to node {node} after {first - changed:.1f} s"
    last = max(moments)
    figures.seconds, figures.late = round(last - over, 1), moments[last]
