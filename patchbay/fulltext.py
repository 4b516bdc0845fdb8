"""Full-text search: texts under keys, found by their words, best first. A small layer over SQLite's FTS5.

What strangers type is never a query language here. Words are looked for as they stand, a phrase in double quotes
as a whole; the last word, of two letters or more, may be unfinished while nothing follows it. Case, accents and
English endings do not count. `create_issue`, `create-issue`, `createIssue` and `create issue` find each other, and
so do the characters of Chinese, Japanese and Korean text that stand together. The score is BM25 with a weight for
each column. An index is a copy: it can be thrown away and filled again.

    index = Index({"title": 4.0, "text": 1.0}, labels=("language",))
    index.put(Document("a.md", {"title": "Loops", "text": "How to iterate"}, {"language": "python"}))
    index.search("iterating", where={"language": "python"}, snippets=("text",))

Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import orjson

from patchbay.errors import ConfigError

MOST_CHARACTERS, MOST_WORDS = 1000, 32
"""How much of a query is read; the rest is left out."""

MOST_ENDINGS = 32
"""How many words an unfinished word is tried as, where it is none itself."""

BEGIN, END = "\x02", "\x03"
"""What stands around a match in a snippet; no text holds them, so they are replaced after escaping."""

SNIPPET = 24
"""Words in a snippet."""

COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be by can do does for from how i in into is it me my of on or please should that "
        "the this to use using want was what when where which will with would you your",
    )
)
"""English words that say nothing about what is wanted; left out where others are left."""

_PLAIN = r"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\s]+"
_RUN = re.compile(rf"{_PLAIN}(?:[._/:@'-]+{_PLAIN})*")
"""A word with what is joined to it: `a.b`, `create_issue`, `utf-8`."""

_SEPARATORS = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_IDENTIFIER = re.compile(rf"{_PLAIN}(?:[._-]{_PLAIN}){{1,5}}")
_WORD = re.compile(r"[^\W_]{2,64}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_UNSAYABLE = re.compile(r"[\x00\x02\x03\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """What is put into an index: a key, the text of each column (a missing one is empty), the value of each label."""

    key: str
    texts: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """What was found: a key, its score (more is better, only comparable within one search), the snippets asked for."""

    key: str
    score: float
    snippets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase of a query; `open` when it may go on."""

    text: str
    phrase: bool = False
    open: bool = False


class Index:
    """Documents by key. Safe for many threads; a file is for one process at a time.

    `columns` maps the names of the texts to their weights, `labels` names what can be filtered by. With `path`
    the index is kept in that file; one that was made with other columns or labels begins empty. Names are lower-case.
    Raises ConfigError when SQLite has no FTS5 or the file is no index.
    """

    def __init__(self, columns: Mapping[str, float], path: Path | None = None, labels: Sequence[str] = ()) -> None:
        wrong = [name for name in (*columns, *labels) if not _NAME.fullmatch(name)]
        if wrong or not columns or len({*columns, *labels}) != len(columns) + len(labels):
            raise ValueError(f"expected columns and labels with different lower-case names; wrong: {wrong}")
        self._columns = dict(columns)
        self._labels = tuple(labels)
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._closer = weakref.finalize(self, self._connection.close)
            require(self._connection, "fts5")
            self._prepare()
        except sqlite3.DatabaseError as problem:
            expected = f"expected a place for a search index, or one, to be deleted if it is broken: {problem}"
            raise ConfigError(str(path), "", expected) from problem

    def put(self, *documents: Document) -> None:
        """Add documents, or replace those whose keys are known: all or none. Raises ValueError for unknown names.

        Thousands at once take less time than one by one, but searches wait meanwhile.
        """
        with self._lock, self._connection:
            self._connection.execute("BEGIN")
            words: set[str] = set()
            for document in documents:
                words |= self._put(document)
            folded = ((_folded(word), word) for word in words)
            self._connection.executemany("INSERT OR IGNORE INTO word VALUES (?, ?)", folded)

    def remove(self, *keys: str) -> int:
        """Take documents away; how many there were."""
        with self._lock, self._connection:
            self._connection.execute("BEGIN")
            return sum(self._remove(key) for key in set(keys))

    def clear(self) -> None:
        """Take all documents away."""
        with self._lock:
            self._make()

    def search(
        self,
        query: str,
        limit: int = 10,
        every: bool = False,
        where: Mapping[str, str] | None = None,
        snippets: Sequence[str] = (),
    ) -> list[Hit]:
        """At most `limit` documents that have a word of a query (`every`: each of its words), best first.

        `where` keeps only documents whose labels have these values; `snippets` names columns of which a part around
        the matches is wanted. A query without words finds nothing. Raises ValueError for unknown names.
        """
        where = where or {}
        self._known(where, self._labels)
        self._known(snippets, self._columns)
        terms = read(query)
        terms = [term for term in terms if term.phrase or term.text.lower() not in COMMON] or terms
        if not terms or limit < 1:
            return []
        with self._lock:
            found = self._found(_joined([_said(term, every) for term in terms], every), limit, where, snippets)
            endings = self._endings(terms[-1]) if len(found) < limit else []
            if endings:
                last = "(" + " OR ".join(map(_quoted, endings)) + ")"
                more = _joined([*(_said(term, every) for term in terms[:-1]), last], every)
                known = {hit.key for hit in found}
                found += [hit for hit in self._found(more, limit, where, snippets) if hit.key not in known]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))[:limit]

    def keys(self) -> list[str]:
        """The keys of all documents, sorted."""
        with self._lock:
            return [key for (key,) in self._connection.execute("SELECT key FROM entry ORDER BY key")]

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM entry").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return self._connection.execute("SELECT 1 FROM entry WHERE key = ?", (key,)).fetchone() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index; one that nobody holds any more does so by itself."""
        with self._lock:
            self._closer()

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS about (shape TEXT NOT NULL)")
        if self._connection.execute("SELECT shape FROM about").fetchall() != [(self._shape(),)]:
            self._make()

    def _shape(self) -> str:
        return orjson.dumps([1, list(self._columns), self._labels]).decode()

    def _make(self) -> None:
        """An empty index. Beside each column stands another one with its words taken apart and put together."""
        columns = ", ".join(f"c_{name}, p_{name}" for name in self._columns)
        labels = "".join(f", l_{name} TEXT NOT NULL" for name in self._labels)
        with self._connection:
            self._connection.execute("BEGIN")
            for table in ("entry", "found", "word"):
                self._connection.execute(f"DROP TABLE IF EXISTS {table}")
            tokenizer = "porter unicode61 remove_diacritics 2"
            self._connection.execute(f"CREATE VIRTUAL TABLE found USING fts5({columns}, tokenize='{tokenizer}')")
            self._connection.execute(f"CREATE TABLE entry (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE{labels})")
            shape = "folded TEXT NOT NULL, word TEXT NOT NULL, PRIMARY KEY (folded, word)"
            self._connection.execute(f"CREATE TABLE word ({shape}) WITHOUT ROWID")
            self._connection.execute("DELETE FROM about")
            self._connection.execute("INSERT INTO about VALUES (?)", (self._shape(),))

    def _put(self, document: Document) -> set[str]:
        """Keep one document; its words."""
        self._known(document.texts, self._columns)
        self._known(document.labels, self._labels)
        self._remove(document.key)
        values = [document.key, *(document.labels.get(name, "") for name in self._labels)]
        id = self._connection.execute(f"INSERT INTO entry VALUES (NULL, {_marks(values)})", values).lastrowid
        texts: list[str] = []
        for name in self._columns:
            text = _UNSAYABLE.sub(" ", document.texts.get(name, ""))
            texts += (text, " ".join(parts(text)))
        names = ", ".join(f"c_{name}, p_{name}" for name in self._columns)
        self._connection.execute(f"INSERT INTO found (rowid, {names}) VALUES ({id}, {_marks(texts)})", texts)
        return {word.lower() for text in texts for word in _WORD.findall(text)}

    def _remove(self, key: str) -> int:
        row = self._connection.execute("SELECT id FROM entry WHERE key = ?", (key,)).fetchone()
        if row is None:
            return 0
        self._connection.execute("DELETE FROM found WHERE rowid = ?", row)
        self._connection.execute("DELETE FROM entry WHERE id = ?", row)
        return 1

    def _known(self, given: Iterable[str], known: Iterable[str]) -> None:
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"this index has no {', '.join(unknown)}; it has {', '.join(known) or 'none'}")

    def _found(self, expression: str, limit: int, where: Mapping[str, str], snippets: Sequence[str]) -> list[Hit]:
        order = list(self._columns)
        cuts = "".join(f", snippet(found, {2 * order.index(name)}, ?, ?, '…', {SNIPPET})" for name in snippets)
        weights = ", ".join(f"{weight!r}, {weight!r}" for weight in map(float, self._columns.values()))
        rows = self._connection.execute(
            f"SELECT entry.key, -bm25(found, {weights}) AS score{cuts}"
            " FROM found CROSS JOIN entry ON entry.id = found.rowid WHERE found MATCH ?"
            + "".join(f" AND entry.l_{name} = ?" for name in where)
            + " ORDER BY score DESC, entry.key LIMIT ?",
            [*(mark for _ in snippets for mark in (BEGIN, END)), expression, *where.values(), limit],
        )
        return [Hit(key, score, dict(zip(snippets, shown, strict=True))) for key, score, *shown in rows]

    def _endings(self, term: Term) -> list[str]:
        """Known words that begin with an unfinished one: its stem need not be the beginning of theirs."""
        begun = _folded(pieces(term.text)[-1].lower()) if term.open and not term.phrase else ""
        if not begun:
            return []
        sql = f"SELECT word FROM word WHERE folded > ? AND folded < ? LIMIT {MOST_ENDINGS}"
        return [word for (word,) in self._connection.execute(sql, (begun, begun + "\U0010ffff"))]


def require(connection: sqlite3.Connection, module: str) -> None:
    """Check that SQLite has a module compiled in. Raises ConfigError."""
    if connection.execute("SELECT 1 FROM pragma_module_list WHERE name = ?", (module,)).fetchone() is None:
        version = sqlite3.sqlite_version
        expected = f"expected an SQLite with {module} compiled in; this is {version} without it, so there is no search"
        raise ConfigError("SQLite", "", expected)


def read(query: str) -> list[Term]:
    """The words and phrases of a query, each once, in order. Everything else in it means nothing."""
    terms: dict[str, Term] = {}
    chunks = query[:MOST_CHARACTERS].split('"')
    for number, chunk in enumerate(chunks):
        runs = list(_RUN.finditer(chunk))
        unfinished = number == len(chunks) - 1 and bool(runs) and runs[-1].end() == len(chunk)
        quoted = bool(number % 2)
        words = [run[0] for run in runs if any(one.isalnum() for one in run[0])]
        for text in [" ".join(words)] if quoted and words else words:
            terms.pop(text.lower(), None)
            last = unfinished and text.endswith(words[-1]) and (len(text) > 1 or not text.isascii())
            terms[text.lower()] = Term(text, quoted, last)
    return list(terms.values())[:MOST_WORDS]


def pieces(word: str) -> list[str]:
    """A word taken apart where writers of programs put words together; itself alone where they did not."""
    found = [piece for part in _SEPARATORS.split(word) for piece in _CAMEL.split(part) if piece]
    return found or [word]


def parts(text: str) -> Iterator[str]:
    """The other forms of the words in a text: apart what is written together, together what is written apart."""
    for run in _RUN.finditer(text):
        word = run[0]
        if _CJK.search(word) is not None:
            yield _spaced(word)
        elif _CAMEL.search(word) is not None:
            yield " ".join(pieces(word))
        if _IDENTIFIER.fullmatch(word) is not None:
            yield _SEPARATORS.sub("", word)


def _spaced(word: str) -> str:
    return _CJK.sub(r" \g<0> ", word)


def _said(term: Term, every: bool) -> str:
    """A term in FTS5's language: a phrase, or any form of a word."""
    star = "*" if term.open else ""
    if term.phrase:
        return _quoted(term.text) + star
    if _CJK.search(term.text) is not None:
        return f"({_quoted(term.text)}{star} OR {_quoted(_spaced(term.text))}{star})"
    found = pieces(term.text)
    if len(found) == 1:
        return _quoted(term.text) + star
    *first, last = map(_quoted, found)
    single = (" AND " if every else " OR ").join([*first, last + star])
    forms = dict.fromkeys((term.text.lower(), " ".join(found).lower(), "".join(found).lower()))
    return f"({' OR '.join(_quoted(form) + star for form in forms)} OR ({single}))"


def _joined(said: Sequence[str], every: bool) -> str:
    return (" AND " if every else " OR ").join(said)


def _quoted(text: str) -> str:
    return '"' + _UNSAYABLE.sub(" ", text).replace('"', '""') + '"'


def _folded(word: str) -> str:
    """A word without accents."""
    return "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
