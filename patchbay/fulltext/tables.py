"""The tables of a full-text index in SQLite: a database is opened, checked, and given empty tables.

`entry` has a row for each document with its key and labels, `found` its texts in FTS5, `word` each word of any text
beside its form without accents, `attachment` what was made from the texts (attachments.py), `about` the
names of the columns and labels that the tables were made for.
Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from patchbay.errors import ConfigError
from patchbay.sqlite import sqlite3

VERSION = 3
"""The version of the tables and of what is stored in them; an index with another one is made again."""

LOCK_WAIT_SECONDS = 30.0
"""Seconds that a write waits for another process that writes to the same file."""


def connected(path: Path | None) -> sqlite3.Connection:
    """A connection to the database of a file; without a path, to a database in memory."""
    return sqlite3.connect(path or ":memory:", timeout=LOCK_WAIT_SECONDS, check_same_thread=False, isolation_level=None)


def fit(connection: sqlite3.Connection, columns: Iterable[str], labels: Sequence[str]) -> bool:
    """Whether a database has the tables for these columns and labels. Prepares its journal."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS about (shape TEXT NOT NULL)")
    return bool(connection.execute("SELECT shape FROM about").fetchall() == [(_shape(columns, labels),)])


def make(connection: sqlite3.Connection, columns: Iterable[str], labels: Sequence[str]) -> None:
    """Begin a transaction in which empty tables take the place of those that are there."""
    typed = "".join(f", l_{name} TEXT NOT NULL" for name in labels)
    connection.execute("BEGIN IMMEDIATE")
    for table in ("entry", "found", "word", "attachment", "attachment_kind"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    tokenizer = "porter unicode61 remove_diacritics 2"
    connection.execute(f"CREATE VIRTUAL TABLE found USING fts5({names(columns)}, tokenize='{tokenizer}')")
    connection.execute(f"CREATE TABLE entry (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE{typed})")
    shape = "folded TEXT NOT NULL, word TEXT NOT NULL, PRIMARY KEY (folded, word)"
    connection.execute(f"CREATE TABLE word ({shape}) WITHOUT ROWID")
    connection.execute("DELETE FROM about")
    connection.execute("INSERT INTO about VALUES (?)", (_shape(columns, labels),))


def names(columns: Iterable[str]) -> str:
    """The columns of the table that is searched: each text, and beside it the other forms of its words."""
    return ", ".join(f"c_{name}, p_{name}" for name in columns)


def require(connection: sqlite3.Connection, module: str) -> None:
    """Check that SQLite has a module compiled in. Raises ConfigError."""
    if connection.execute("SELECT 1 FROM pragma_module_list WHERE name = ?", (module,)).fetchone() is None:
        version = sqlite3.sqlite_version
        expected = f"expected SQLite with {module}; version {version} is compiled without it, so there is no search"
        raise ConfigError("SQLite", "", expected)


def _shape(columns: Iterable[str], labels: Sequence[str]) -> str:
    return orjson.dumps([VERSION, list(columns), labels]).decode()
