"""Selects the SQLite library of the package: every other module imports `sqlite3` from here.

`pysqlite3` comes first, because its wheel brings a SQLite without the WAL-reset bug. On platforms without that wheel
the module of Python's standard library replaces it. One process uses only one of the two: two copies of SQLite that
open the same file in one process remove each other's locks.
Sources: https://sqlite.org/wal.html#walresetbug; https://sqlite.org/howtocorrupt.html, section 2.2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

__all__ = ["Fault", "fault_of", "known_defect", "sqlite3"]

Fault = Literal["full", "unwritable", "damaged", "other"]
"""What is wrong with the file of a database, or with its disk."""

_FAULTS: dict[int, Fault] = {
    **dict.fromkeys((3, 8, 10, 14), "unwritable"),
    **dict.fromkeys((11, 26), "damaged"),
    **dict.fromkeys((13, 10 | 19 << 8), "full"),
}
"""Result code, or its low byte -> fault; https://sqlite.org/rescode.html: PERM, READONLY, IOERR, CANTOPEN; CORRUPT,
NOTADB; FULL, IOERR_SHMSIZE (no room for the shared memory of WAL)."""

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:
        import sqlite3


def fault_of(problem: BaseException | None) -> Fault:
    """Return the fault that an error of SQLite reports; `other` for any other error, such as a locked database."""
    code = getattr(problem, "sqlite_errorcode", 0)
    return _FAULTS.get(code) or _FAULTS.get(code & 0xFF, "other")


def known_defect(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> str | None:
    """Return the known defect of a version of the SQLite library as a sentence, or None.

    The WAL-reset bug needs two connections that write at once. One process of the hub never does that; two may.
    """
    if not (3, 7, 0) <= version <= (3, 51, 2):
        return None
    return (
        f"SQLite {'.'.join(map(str, version))} has the WAL-reset bug (3.7.0 to 3.51.2, fixed in 3.51.3): two processes"
        " that write at the same moment can, very rarely, damage the database; run one worker, or install pysqlite3,"
        " which brings a newer SQLite"
    )
