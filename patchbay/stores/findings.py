"""The results of the examination of a store, for `patchbay doctor`."""

from __future__ import annotations

from dataclasses import dataclass

EMPTY_SCHEMA = "the database is empty; the first start makes the schema"
"""The sentence of a finding about the schema of a new database."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the examination of a store: what was checked, a sentence, and what to do (empty: it is well).

    `is_fatal` says that a hub does not work so.
    """

    check: str
    sentence: str
    mend: str = ""
    is_fatal: bool = False
