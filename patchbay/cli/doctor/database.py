"""Checks of the database of a hub in PostgreSQL: version, schema, rights, clock, connections, bus."""

from __future__ import annotations

from collections.abc import Iterator

from patchbay.cli.doctor.verdicts import Verdict, ok, problem, warning
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.store import is_database_address
from patchbay.stores import examine_store


def check_database(settings: Settings) -> Iterator[Verdict]:
    """Yield the verdicts about the database; none for a hub without one."""
    if not is_database_address(settings.store):
        return
    try:
        found = examine_store(settings.store, settings.bus_address)
    except ConfigError as wrong:
        yield problem("database", wrong.expected, "patchbay doctor --store postgresql://user@host/db")
        return
    for one in found:
        if not one.mend:
            yield ok(one.check, one.sentence)
        else:
            yield (problem if one.is_fatal else warning)(one.check, one.sentence, one.mend)
