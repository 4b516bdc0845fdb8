"""The hosts that the program of a mounted server asked for, in the store: one entry of the journal by server.

Every process that runs the program adds its own counts to the newest entry, and the older ones go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import orjson

from patchbay.errors import StaleUpdate
from patchbay.processes.egress.egress_records import HostRecord, merge_records
from patchbay.store import Journal
from patchbay.topics import REQUESTED_HOSTS

log = logging.getLogger(__name__)

KEEP_SECONDS = 30 * 86_400.0
"""Seconds for which the hosts are kept after the last request."""

MAX_TRIES = 10
"""Times that counts are added to what another process has just stored."""


def add_requested_hosts(journal: Journal, server: str, records: Iterable[HostRecord]) -> None:
    """Add the counts of hosts to those of a server. Raises StaleUpdate when others always were first."""
    topic, fresh = REQUESTED_HOSTS + server, list(records)
    for left in reversed(range(MAX_TRIES)):
        last, known = _read(journal, topic)
        data = orjson.dumps([_write(one) for one in merge_records([*known, *fresh])])
        try:
            seqs = journal.append_all([(topic, data, KEEP_SECONDS)], {topic: last})
        except StaleUpdate:
            if left == 0:
                raise
            continue
        journal.remove(topic, seqs[0])
        return


def load_requested_hosts(journal: Journal, server: str) -> list[HostRecord]:
    """Return the hosts that the program of a server asked for, the latest first."""
    return _read(journal, REQUESTED_HOSTS + server)[1][::-1]


def _read(journal: Journal, topic: str) -> tuple[int, list[HostRecord]]:
    """Return the seq of the newest entry, 0 without one, and its records."""
    for entry in journal.tail(topic, 1):
        try:
            return entry.seq, [HostRecord(*row) for row in orjson.loads(entry.data)]
        except (ValueError, TypeError):
            log.warning("the hosts in %s cannot be read, so their counts begin again", topic)
            return entry.seq, []
    return 0, []


def _write(record: HostRecord) -> list[str | int | float]:
    return [record.host, record.port, record.reached, record.refused, record.at, record.reason]
