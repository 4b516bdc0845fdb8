"""Checks of the database of a hub: the file of SQLite, or the schema, rights, clock and bus of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from patchbay.access.given_key import read_given_key
from patchbay.access.hub_key import has_key, hub_id, load_key
from patchbay.access.stored_key_id import stored_id
from patchbay.cli.doctor.verdicts import CheckResult, ok, problem, warning
from patchbay.cli.terminal.messages import quote_word
from patchbay.errors import ConfigError, PatchbayError
from patchbay.settings import Settings
from patchbay.store import DATABASE_FILE, is_database_address, store_exists
from patchbay.stores import examine_store, open_store
from patchbay.stores.findings import EMPTY_SCHEMA
from patchbay.stores.sqlite.database import check_file


def _check_key(settings: Settings) -> Iterator[CheckResult]:
    """Check that the key of this machine is that of the hubs in the database."""
    check, mend = "key", "give each machine the key of the first one: --key-file, or PATCHBAY_KEY"
    try:
        key = read_given_key(settings) or (load_key(settings.data) if has_key(settings.data) else None)
        with closing(open_store(settings.store, settings.data)) as store:
            known = stored_id(store)
    except PatchbayError as unusable:
        yield problem(check, unusable.message, mend)
        return
    if known is not None and (key is None or hub_id(key) != known):
        found = "this machine has no key" if key is None else "it is that of another hub"
        yield problem(check, f"expected the key of the hubs in the database, but {found}", mend)


def check_database(settings: Settings) -> Iterator[CheckResult]:
    """Yield the verdicts about the database in PostgreSQL; nothing for a hub with another store."""
    if not is_database_address(settings.store):
        return
    try:
        found = examine_store(settings.store, settings.bus_address, settings.blobs)
    except ConfigError as wrong:
        yield problem("database", wrong.expected, "patchbay doctor --store postgresql://user@host/db")
        return
    if not any(one.is_fatal or one.sentence == EMPTY_SCHEMA for one in found):
        yield from _check_key(settings)
    for one in found:
        if not one.mend:
            yield ok(one.check, one.sentence)
        else:
            yield (problem if one.is_fatal else warning)(one.check, one.sentence, one.mend)


def check_database_file(settings: Settings) -> Iterator[CheckResult]:
    """Yield the verdict about the database file, without changing it; nothing for a hub without one."""
    if settings.store != "sqlite" or not store_exists(settings.store, settings.data):
        return
    path = settings.data / DATABASE_FILE
    found = check_file(path)
    if found is None:
        yield ok("database", f"{path} is undamaged")
        return
    fault, sentence = found
    folder = quote_word(str(settings.data))
    mends = {
        "full": "patchbay gc --blob-hours 1",
        "unwritable": f"chmod -R u+rwX {folder}, or patchbay serve --data FOLDER on another disk",
        "damaged": f"stop the hub, mv {folder} {folder}.damaged, and copy a backup to {folder}",
        "other": f"ls -l {folder}",
    }
    yield problem("database", sentence, mends[fault])
