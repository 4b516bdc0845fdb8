"""The check of the database file: whether it can be read, and whether it is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from patchbay.cli.doctor.verdicts import CheckResult, ok, problem
from patchbay.cli.messages import quote_word
from patchbay.settings import Settings
from patchbay.store import DATABASE_FILE, store_exists
from patchbay.stores.sqlite.database import check_file


def check_database_file(settings: Settings) -> Iterator[CheckResult]:
    """Check the database of the hub, if there is one, without changing it."""
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
