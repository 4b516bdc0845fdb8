"""Full-text search: finds texts under keys by their words, best first. A small layer over SQLite's FTS5.

A query has no operators of FTS5. Each word is searched as it is, a phrase in double quotes as a whole; the last word,
of two letters or more, may be unfinished if no other text follows it. Case, accents and English endings do not matter.
`create_issue`, `create-issue`, `createIssue` and `create issue` find each other, and so do adjacent characters of
Chinese, Japanese and Korean text. The score is BM25 with a weight for each column. An index is a copy: you can delete
it and fill it again.

    index = Index({"title": 4.0, "text": 1.0}, labels=("language",))
    index.put(IndexedText("a.md", {"title": "Loops", "text": "How to iterate"}, {"language": "python"}))
    index.search("iterating", where={"language": "python"}, snippets=("text",))

Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from patchbay.errors import ConfigError
from patchbay.fulltext import tables
from patchbay.fulltext.attachments import Attachments
from patchbay.fulltext.query import ParsedQuery, parse_query
from patchbay.fulltext.time_limit import TimeLimit
from patchbay.fulltext.vocabulary import IndexVocabulary, KnownForms, endings, question_marks
from patchbay.fulltext.words import (
    UNSAYABLE,
    KnownTexts,
    QueryTerm,
    folded,
    fts5_expression,
    joined,
    pieces,
    quoted,
    significant_words,
)
from patchbay.sqlite import sqlite3

BEGIN, END = "\x02", "\x03"
"""The marks around a match in a snippet. Texts cannot contain them, so they can be replaced after escaping."""

SNIPPET_WORDS = 24
"""Words in a snippet."""

MAX_KEPT_TEXTS = 32_768
"""Limit on the texts without blanks that an index caches with their other forms."""

_WORD = re.compile(r"[^\W_]{2,64}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A document for an index: a key, the text of each column (a missing one is empty), the value of each label."""

    key: str
    texts: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexHit:
    """A match: its key, its score (higher is better; comparable only within one search), the requested snippets."""

    key: str
    score: float
    snippets: Mapping[str, str] = field(default_factory=dict)


class Index:
    """Documents by key. Safe for many threads and, in a file, for several processes. Reads never wait for writes.

    `columns` maps the names of the texts to their weights, `labels` names the values to filter by. With `path` the
    index is in that file; a file with other columns or labels is emptied first. Names are lower-case. Raises
    ConfigError for an SQLite without FTS5 and for a file that is not an index.
    """

    def __init__(self, columns: Mapping[str, float], path: Path | None = None, labels: Sequence[str] = ()) -> None:
        wrong = [name for name in (*columns, *labels) if not _NAME.fullmatch(name)]
        if wrong or not columns or len({*columns, *labels}) != len(columns) + len(labels):
            raise ValueError(f"expected columns and labels with different lower-case names; wrong: {wrong}")
        self._columns = dict(columns)
        self._labels = tuple(labels)
        self._insert_entry = f"INSERT INTO entry VALUES ({question_marks(('id', 'key', *labels))})"
        self._insert_text = (
            f"INSERT INTO found (rowid, {tables.names(columns)}) VALUES (?, {question_marks(2 * [*columns])})"
        )
        self._texts = KnownTexts()
        self._known_forms = KnownForms()
        self._version = 0
        self._lock = threading.RLock()
        self._limit = TimeLimit()
        try:
            self._path = path
            self._readers: list[sqlite3.Connection] = []
            self._connection = tables.connected(path)
            self._closer = weakref.finalize(self, _close, self._connection, self._readers)
            tables.require(self._connection, "fts5")
            self._prepare()
        except sqlite3.DatabaseError as problem:
            expected = f"expected a search index, or a path for a new one; delete the file if it is damaged: {problem}"
            raise ConfigError(str(path), "", expected) from problem

    def put(self, *documents: IndexedText) -> None:
        """Add or replace documents by key in one transaction. Raises ValueError for unknown names.

        Many documents in one call take less time than one by one.
        """
        with self._lock:
            try:
                with self._connection:
                    self._connection.execute("BEGIN IMMEDIATE")
                    self._check_texts()
                    self._put({document.key: document for document in documents})
                    self._store_words()
            except BaseException:
                self._texts.clear()
                raise

    def _check_texts(self) -> None:
        """Clear the cache of texts if it is large, or if another connection has written.

        The words of every cached text are in the table of words, which another connection may have emptied.
        """
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._texts) > MAX_KEPT_TEXTS:
            self._texts.clear()
        self._version = version

    def _store_words(self) -> None:
        """Store the words of new texts in the table of words, in its order."""
        words = {word.lower() for text in self._texts.new for word in _WORD.findall(text)}
        forms = sorted((folded(word), word) for word in words)
        self._connection.executemany("INSERT OR IGNORE INTO word VALUES (?, ?)", forms)
        self._texts.new.clear()

    def remove(self, *keys: str) -> int:
        """Remove documents; return how many existed."""
        with self._writing():
            return sum(self._remove(key) for key in set(keys))

    def label_each(self, name: str, values: Mapping[str, str]) -> None:
        """Set one label of documents, by key; their texts stay unchanged. Raises ValueError for unknown names."""
        self._check_names((name,), self._labels)
        with self._writing() as connection:
            changes = ((value, key) for key, value in values.items())
            connection.executemany(f"UPDATE entry SET l_{name} = ? WHERE key = ?", changes)

    def labels(self) -> dict[str, dict[str, str]]:
        """Return the labels of every document, by key."""
        names = "".join(f", l_{name}" for name in self._labels)
        with self._reading() as connection:
            rows = connection.execute(f"SELECT key{names} FROM entry")
            return {key: dict(zip(self._labels, values, strict=True)) for key, *values in rows}

    def labels_of(self, keys: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the labels of some documents, by key, without those that the index lacks."""
        names = "".join(f", l_{name}" for name in self._labels)
        with self._reading() as connection:
            rows = (
                connection.execute(f"SELECT key{names} FROM entry WHERE key = ?", (key,)).fetchone() for key in keys
            )
            return {row[0]: dict(zip(self._labels, row[1:], strict=True)) for row in rows if row is not None}

    def clear(self) -> None:
        """Remove all documents."""
        with self._lock:
            self._create_tables()

    def search(
        self,
        query: str,
        limit: int = 10,
        every: bool = False,
        where: Mapping[str, str] | None = None,
        snippets: Sequence[str] = (),
        within: Sequence[str] = (),
    ) -> list[IndexHit]:
        """Return at most `limit` documents with a word of the query (`every`: with each of its words), best first.

        `where` restricts the values of labels; `snippets` names the columns to give a snippet of; `within` restricts
        the search to these columns. A query without words finds no documents. Raises ValueError for unknown names.
        """
        where = where or {}
        self._check_names(where, self._labels)
        self._check_names((*snippets, *within), self._columns)
        terms = significant_words(query)
        if not terms or limit < 1:
            return []
        with self._reading() as connection:
            first, more = self._expressions(connection, terms, every, within)
            found = _rows(connection, self._selection(first, where, snippets, limit), snippets)
            if more and len(found) < limit:
                known = {hit.key for hit in found}
                rows = _rows(connection, self._selection(more, where, snippets, limit), snippets)
                found += [hit for hit in rows if hit.key not in known]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))[:limit]

    def read(self, query: str) -> ParsedQuery:
        """Parse a query with the words of this index."""
        with self._reading() as connection:
            vocabulary = IndexVocabulary(connection, self._limit.check, self._known_forms)
            return parse_query(query, vocabulary, lambda term: endings(connection, term), vocabulary.has)

    def find_documents(
        self, expression: str, limit: int, where: Mapping[str, str] | None = None, within: Sequence[str] = ()
    ) -> list[IndexHit]:
        """Return at most `limit` documents that an expression of a `ParsedQuery` finds, best first, as `search`."""
        where = where or {}
        self._check_names(where, self._labels)
        self._check_names(within, self._columns)
        with self._reading() as connection:
            return _rows(connection, self._selection(only(expression, within), where, (), limit), ())

    def texts(
        self, expression: str, columns: Sequence[str], limit: int, where: Mapping[str, str] | None = None
    ) -> dict[str, tuple[str, ...]]:
        """Return the texts of columns by key, of at most `limit` documents that have the expression in one of them."""
        where = where or {}
        self._check_names(where, self._labels)
        self._check_names(columns, self._columns)
        names = ", ".join(f"found.c_{name}" for name in columns)
        sql = f"SELECT entry.key, {names} FROM found CROSS JOIN entry ON entry.id = found.rowid WHERE found MATCH ?"
        sql += "".join(f" AND entry.l_{name} = ?" for name in where) + " LIMIT ?"
        with self._reading() as connection:
            rows = connection.execute(sql, (only(expression, columns), *where.values(), limit))
            return {key: tuple(texts) for key, *texts in rows}

    def having(self, expression: str, where: Mapping[str, str] | None = None, within: Sequence[str] = ()) -> set[str]:
        """Return the keys of all documents that an expression of a `ParsedQuery` finds, unranked."""
        where = where or {}
        self._check_names(where, self._labels)
        self._check_names(within, self._columns)
        sql = "SELECT entry.key FROM found CROSS JOIN entry ON entry.id = found.rowid WHERE found MATCH ?"
        sql += "".join(f" AND entry.l_{name} = ?" for name in where)
        with self._reading() as connection:
            return {key for (key,) in connection.execute(sql, (only(expression, within), *where.values()))}

    def count(self, expression: str, where: Mapping[str, str] | None = None) -> int:
        """Return the number of documents that an expression of a `ParsedQuery` finds."""
        where = where or {}
        self._check_names(where, self._labels)
        sql = "SELECT count(*) FROM found CROSS JOIN entry ON entry.id = found.rowid WHERE found MATCH ?"
        sql += "".join(f" AND entry.l_{name} = ?" for name in where)
        with self._reading() as connection:
            return int(connection.execute(sql, (expression, *where.values())).fetchone()[0])

    def attachments(self, label: str) -> Attachments:
        """Return the attachments of the documents, each of which its key and this label identify."""
        self._check_names((label,), self._labels)
        return Attachments(self._reading, self._writing, label)

    def within_seconds(self, seconds: float) -> AbstractContextManager[None]:
        """Limit the time of this thread's searches in the block. Raises TimedOut after `seconds`."""
        return self._limit.within_seconds(seconds)

    def keys(self) -> list[str]:
        """Return the keys of all documents, sorted."""
        with self._reading() as connection:
            return [key for (key,) in connection.execute("SELECT key FROM entry ORDER BY key")]

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM entry").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        with self._reading() as connection:
            return connection.execute("SELECT 1 FROM entry WHERE key = ?", (key,)).fetchone() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The garbage collector also closes them."""
        with self._lock:
            self._closer()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for writing, in a transaction."""
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reading: for a file one that writes do not block, in memory the only connection.

        Raises TimedOut after the time of `within_seconds`, also in the middle of a statement.
        """
        self._limit.check()
        if self._path is None:
            with self._lock, self._limit.interrupt(self._connection):
                yield self._connection
            return
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = tables.connected(self._path)
        try:
            # One transaction, so that all statements of a search see the same state.
            connection.execute("BEGIN")
            with self._limit.interrupt(connection):
                yield connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._readers.append(connection)

    def _prepare(self) -> None:
        if not tables.fit(self._connection, self._columns, self._labels):
            self._create_tables()

    def _create_tables(self) -> None:
        """Replace the index by an empty one."""
        self._texts.clear()
        with self._connection:
            tables.make(self._connection, self._columns, self._labels)

    def _put(self, documents: Mapping[str, IndexedText]) -> None:
        """Store documents by key, first in one table, then in the next, which is faster than alternating."""
        entries: list[Sequence[object]] = []
        texts: list[Sequence[object]] = []
        for key in documents:
            self._remove(key)
        last = self._connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()[0]
        for id, (key, document) in enumerate(documents.items(), last + 1):
            self._check_names(document.texts, self._columns)
            self._check_names(document.labels, self._labels)
            entries.append((id, key, *(document.labels.get(name, "") for name in self._labels)))
            row: list[object] = [id]
            for name in self._columns:
                text = _replace_unsayable(document.texts.get(name, ""))
                row += (text, " ".join(self._texts.forms(text)))
            texts.append(row)
        self._connection.executemany(self._insert_entry, entries)
        self._connection.executemany(self._insert_text, texts)

    def _remove(self, key: str) -> int:
        row = self._connection.execute("SELECT id FROM entry WHERE key = ?", (key,)).fetchone()
        if row is None:
            return 0
        self._connection.execute("DELETE FROM found WHERE rowid = ?", row)
        self._connection.execute("DELETE FROM entry WHERE id = ?", row)
        return 1

    def _check_names(self, given: Iterable[str], known: Iterable[str]) -> None:
        if unknown := sorted(set(given).difference(known)):
            raise ValueError(f"this index has no {', '.join(unknown)}; it has {', '.join(known) or 'none'}")

    def _selection(
        self, expression: str, where: Mapping[str, str], snippets: Sequence[str], limit: int
    ) -> tuple[str, list[object]]:
        """Return the statement that finds documents, and its parameters."""
        order = list(self._columns)
        cuts = "".join(f", snippet(found, {2 * order.index(name)}, ?, ?, '…', {SNIPPET_WORDS})" for name in snippets)
        weights = ", ".join(f"{weight!r}, {weight!r}" for weight in map(float, self._columns.values()))
        sql = (
            f"SELECT entry.key, -bm25(found, {weights}) AS score{cuts}"
            " FROM found CROSS JOIN entry ON entry.id = found.rowid WHERE found MATCH ?"
            + "".join(f" AND entry.l_{name} = ?" for name in where)
            + " ORDER BY score DESC, entry.key LIMIT ?"
        )
        return sql, [*(mark for _ in snippets for mark in (BEGIN, END)), expression, *where.values(), limit]

    def _expressions(
        self, connection: sqlite3.Connection, terms: Sequence[QueryTerm], every: bool, within: Sequence[str]
    ) -> tuple[str, str | None]:
        """Return a query as an FTS5 expression, and a second one if its last word may be unfinished."""
        expressions = [fts5_expression(term, every) for term in terms]
        first = only(joined(expressions, every), within)
        ended = endings(connection, terms[-1])
        if not ended:
            return first, None
        last = "(" + " OR ".join(map(quoted, ended)) + ")"
        # In a word of several parts, only the last part is unfinished.
        last = "(" + " AND ".join([*map(quoted, pieces(terms[-1].text)[:-1]), last]) + ")"
        return first, only(joined([*expressions[:-1], last], every), within)


def _replace_unsayable(text: str) -> str:
    """Return a text with blanks in place of the characters that an index cannot hold."""
    if text.isascii() and not any(mark in text for mark in ("\0", BEGIN, END)):
        return text
    return UNSAYABLE.sub(" ", text)


def only(expression: str, within: Sequence[str]) -> str:
    """Return the expression restricted to some columns."""
    columns = " ".join(f"c_{name} p_{name}" for name in within)
    return f"{{{columns}}} : ({expression})" if within else f"({expression})"


def _close(connection: sqlite3.Connection, readers: list[sqlite3.Connection]) -> None:
    for one in (*readers, connection):
        one.close()


def _rows(
    connection: sqlite3.Connection, selection: tuple[str, list[object]], snippets: Sequence[str]
) -> list[IndexHit]:
    rows = connection.execute(*selection)
    return [IndexHit(key, score, dict(zip(snippets, shown, strict=True))) for key, score, *shown in rows]
