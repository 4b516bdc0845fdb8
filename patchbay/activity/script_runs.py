"""The records of one run of a script: that of the script itself, and those of the calls that it made."""

from __future__ import annotations

import re
from typing import NamedTuple

from patchbay.activity.recorder import Activity
from patchbay.activity.records import SEARCHED, Filter, Record
from patchbay.errors import PatchbayError

MAX_PAGES = 3
"""Limit on the searches of records for one run, each of at most `records.SEARCHED`."""

RECORDS_OF_RUN = 500
"""Limit on the records of one search: more than a run may make calls."""

RESUMED = "resumed"
"""The entry point in the record of a script that went on after it was suspended."""

SUSPENDED_SECONDS = 1200.0
"""Seconds between two records of one run, at most: it waited for a decision, and then for a process."""

_ID = re.compile(r"[0-9a-f]{16}")


class TooOld(PatchbayError):
    """A run is not among the newest records, and no older ones are searched."""

    code, status = -32602, 404


class RunRecords(NamedTuple):
    """A run by its id: the record of the script (None while it runs), and its calls in the order in which they began.

    Calls of scripts inside it have the depth 2.
    """

    id: str
    script: Record | None
    calls: list[Record]


def is_run(id: str) -> bool:
    """Whether a text has the form of the id of a run, which no id of a record has."""
    return _ID.fullmatch(id) is not None


def find_run(activity: Activity, id: str) -> RunRecords | None:
    """Return the records of a run; None for an unknown one. Raises TooOld for one beyond what is searched.

    The calls of a run end before its script does, so that their records come before that of the script.
    """
    if not is_run(id):
        return None
    wanted, before = Filter(run=id), None
    found: list[Record] = []
    for _ in range(MAX_PAGES):
        page = activity.recent(wanted, RECORDS_OF_RUN, before)
        found += page.records
        oldest = next((one for one in reversed(found) if not one.number), None)
        before = page.next
        if before is None:
            break
        if oldest is not None:  # what is older belongs to other runs
            earlier = SUSPENDED_SECONDS if oldest.way == RESUMED else 1.0
            wanted = Filter(run=id, since=oldest.at - earlier)
    else:
        if not found:
            raise TooOld(
                f"there is no run {id} among the newest {MAX_PAGES * SEARCHED} records, which is as far as a search for"
                " a run goes"
            )
    calls = sorted((one for one in found if one.number), key=lambda one: (one.depth, one.number))
    return RunRecords(id, next((one for one in found if not one.number), None), calls) if found else None
