"""Bytes that belong to the documents of an index, made from their texts: by kind, in the index's own file.

A document that is removed or replaced loses them in the same transaction, by a trigger, so that this holds for every
process. The tables are made by the first write: an index without attachments has the same bytes as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from patchbay.sqlite import sqlite3

_TABLES = (
    # AUTOINCREMENT: a number is never used twice, so that what a reader holds under a number never changes.
    "CREATE TABLE IF NOT EXISTS attachment (number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL,"
    " kind TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (id, kind))",
    "CREATE TABLE IF NOT EXISTS attachment_kind (kind TEXT PRIMARY KEY, origin TEXT NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS entry_deleted AFTER DELETE ON entry BEGIN"
    " DELETE FROM attachment WHERE id = old.id; END",
)

Connecting = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Gives a connection for a block, in which one transaction is open."""


@dataclass(frozen=True, slots=True)
class Unattached:
    """A document without an attachment of a kind: its number in the index, key, label, and its texts."""

    id: int
    key: str
    label: str
    texts: tuple[str, ...]


class Attachments:
    """The attachments of one index. Thread-safe, as the index is.

    A document is identified by its key and one of its labels: `label` is its name, and its value differs for each text.
    """

    def __init__(self, reading: Connecting, writing: Connecting, label: str) -> None:
        self._reading = reading
        self._writing = writing
        self._label = f"l_{label}"

    def unattached(self, kind: str, columns: Sequence[str], limit: int) -> list[Unattached]:
        """Return at most `limit` documents without an attachment of a kind, in random order, with these texts.

        The order is random so that several processes rarely make the same attachment.
        """
        texts = "".join(f", found.c_{name}" for name in columns)
        sql = f"SELECT entry.id, entry.key, entry.{self._label}{texts} FROM entry JOIN found ON found.rowid = entry.id"
        with self._reading() as connection:
            where, values = _lacking(connection, kind)
            chosen = f"SELECT entry.id FROM entry{where} ORDER BY random() LIMIT ?"
            rows = connection.execute(f"{sql} WHERE entry.id IN ({chosen})", (*values, limit))
            return [Unattached(id, key, label, tuple(found)) for id, key, label, *found in rows]

    def count_unattached(self, kind: str) -> int:
        """Return the number of documents without an attachment of a kind."""
        with self._reading() as connection:
            where, values = _lacking(connection, kind)
            return int(connection.execute(f"SELECT count(*) FROM entry{where}", values).fetchone()[0])

    def put(self, kind: str, origin: str, made: Iterable[tuple[Unattached, bytes]]) -> None:
        """Store attachments of a kind, except for documents that changed meanwhile; `origin` says what made them."""
        rows = [(one.id, kind, data, one.id, one.key, one.label) for one, data in made]
        with self._writing() as connection:
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("INSERT OR REPLACE INTO attachment_kind VALUES (?, ?)", (kind, origin))
            sql = (
                "INSERT OR IGNORE INTO attachment (id, kind, data) SELECT ?, ?, ? WHERE EXISTS"
                f" (SELECT 1 FROM entry WHERE id = ? AND key = ? AND {self._label} = ?)"
            )
            connection.executemany(sql, rows)

    def kinds(self) -> dict[str, tuple[str, int]]:
        """Return the kinds that there are: what made each, and its number of documents."""
        count = "SELECT count(*) FROM attachment WHERE attachment.kind = known.kind"
        sql = f"SELECT kind, origin, ({count}) FROM attachment_kind known"
        with self._reading() as connection:
            if not _has_tables(connection):
                return {}
            return {kind: (origin, count) for kind, origin, count in connection.execute(sql)}

    def drop_kind(self, kind: str) -> None:
        """Remove all attachments of a kind."""
        with self._writing() as connection:
            if _has_tables(connection):
                connection.execute("DELETE FROM attachment WHERE kind = ?", (kind,))
                connection.execute("DELETE FROM attachment_kind WHERE kind = ?", (kind,))

    def changes(self, kind: str, known: set[int]) -> tuple[set[int], list[tuple[int, str, bytes]]]:
        """Return the `known` numbers that are gone, and the new attachments: number, key of the document, bytes."""
        with self._reading() as connection:
            if not _has_tables(connection):
                return known, []
            counted = connection.execute("SELECT count(*), max(number) FROM attachment WHERE kind = ?", (kind,))
            if counted.fetchone() == (len(known), max(known, default=None)):
                return set(), []
            rows = connection.execute("SELECT number FROM attachment WHERE kind = ?", (kind,))
            present = {number for (number,) in rows}
            new = present - known
            if len(new) > len(present) // 2:
                sql, values = "WHERE attachment.kind = ?", [(kind,)]
            else:
                sql, values = "WHERE attachment.number = ?", [(number,) for number in new]
            selection = f"SELECT number, entry.key, data FROM attachment JOIN entry ON entry.id = attachment.id {sql}"
            found = [row for value in values for row in connection.execute(selection, value)]
            return known - present, [row for row in found if row[0] in new]


def _has_tables(connection: sqlite3.Connection) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'attachment'"
    return connection.execute(sql).fetchone() is not None


def _lacking(connection: sqlite3.Connection, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the condition for documents without an attachment of a kind, and its values."""
    if not _has_tables(connection):
        return "", ()
    return " WHERE NOT EXISTS (SELECT 1 FROM attachment a WHERE a.id = entry.id AND a.kind = ?)", (kind,)
