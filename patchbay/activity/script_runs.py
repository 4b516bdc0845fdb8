"""The records of one run of a script: that of the script itself, and those of the calls that it made."""

from __future__ import annotations

import re
from typing import NamedTuple

from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter, Record

MAX_PAGES = 3
"""Limit on the searches of records for one run, each of at most `records.SEARCHED`."""

RECORDS_OF_RUN = 500
"""Limit on the records of one search: more than a run may make calls."""

_ID = re.compile(r"[0-9a-f]{16}")


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
    """Return the records of a run; None for an unknown one, and for one that is older than what is searched.

    The calls of a run end before its script does, so that their records come before that of the script.
    """
    if not is_run(id):
        return None
    wanted, before = Filter(run=id), None
    found: list[Record] = []
    for _ in range(MAX_PAGES):
        page = activity.recent(wanted, RECORDS_OF_RUN, before)
        found += page.records
        script = next((one for one in found if not one.number), None)
        before = page.next
        if before is None:
            break
        if script is not None:  # what is older belongs to other runs
            wanted = Filter(run=id, since=script.at - 1)
    calls = sorted((one for one in found if one.number), key=lambda one: (one.depth, one.number))
    return RunRecords(id, next((one for one in found if not one.number), None), calls) if found else None
