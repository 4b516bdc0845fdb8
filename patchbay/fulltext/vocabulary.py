"""Looks up the words of an index while a query is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from patchbay.fulltext.words import UNSAYABLE, QueryTerm, folded, pieces, quoted
from patchbay.sqlite import sqlite3

MAX_COMPLETIONS = 32
"""Limit on the known words that complete an unfinished word."""

MAX_KEPT_CONNECTIONS = 4
"""Limit on the connections whose forms of words are kept as a text."""


class KnownForms:
    """The forms of all words of an index as one text, in which a part of a word is found without reading the table.

    The text is kept for each connection, until the index changes. After a change the table is read directly once, so
    that an index with many writes does not make the text for each search.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[tuple[int, int], str | None]] = {}

    def get(self, connection: sqlite3.Connection) -> str | None:
        """Return the forms, each between line breaks; None when the index has changed since the last call."""
        state = (connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes)
        known, text = self._texts.get(id(connection), (None, None))
        if known != state:
            if len(self._texts) >= MAX_KEPT_CONNECTIONS:
                self._texts.clear()
            self._texts[id(connection)] = (state, None)
            return None
        if text is None:
            text = "\n".join(["", *(form for (form,) in connection.execute("SELECT folded FROM word")), ""])
            self._texts[id(connection)] = (state, text)
        return text


class IndexVocabulary:
    """The words of an index, read through one connection. `check_time` raises TimedOut when the time is over."""

    def __init__(self, connection: sqlite3.Connection, check_time: Callable[[], None], known: KnownForms) -> None:
        self._connection = connection
        self._check_time = check_time
        self._forms = known.get(connection)

    def between(self, begin: str, end: str, max_words: int) -> list[str]:
        return self._words("folded >= ? AND folded < ? LIMIT ?", begin, end, max_words)

    def containing(self, part: str, letters: int, max_words: int) -> list[str]:
        if self._forms is not None and "\n" not in part:
            forms = _forms_containing(self._forms, part, letters, max_words)
            return sorted(self.words_with_forms(forms), key=lambda word: (len(folded(word)), folded(word)))[:max_words]
        condition = "instr(folded, ?) > 0 AND length(folded) >= ? ORDER BY length(folded), folded LIMIT ?"
        return self._words(condition, part, letters, max_words)

    def words_with_forms(self, forms: Iterable[str]) -> list[str]:
        wanted = list(forms)
        batches = (wanted[begin : begin + 500] for begin in range(0, len(wanted), 500))
        return [word for batch in batches for word in self._words(f"folded IN ({question_marks(batch)})", *batch)]

    def documents(self, word: str) -> int:
        sql = "SELECT count(*) FROM found WHERE found MATCH ?"
        return int(self._connection.execute(sql, (quoted(word),)).fetchone()[0])

    def has(self, expression: str) -> bool:
        """Whether an expression finds any document."""
        self._check_time()
        sql = "SELECT 1 FROM found WHERE found MATCH ? LIMIT 1"
        return self._connection.execute(sql, (expression,)).fetchone() is not None

    def _words(self, condition: str, *values: object) -> list[str]:
        self._check_time()
        return [word for (word,) in self._connection.execute(f"SELECT word FROM word WHERE {condition}", values)]


def _forms_containing(text: str, part: str, letters: int, max_words: int) -> list[str]:
    """Return the forms of at least `letters` letters that contain a part, the shortest first."""
    found: set[str] = set()
    at = text.find(part)
    while at >= 0:
        end = text.index("\n", at)
        form = text[text.rindex("\n", 0, at) + 1 : end]
        if len(form) >= letters:
            found.add(form)
        at = text.find(part, end)
    return sorted(found, key=lambda form: (len(form), form))[:max_words]


def question_marks(values: Sequence[object]) -> str:
    """Return one `?` for each value, for a statement."""
    return ", ".join("?" * len(values))


def endings(connection: sqlite3.Connection, term: QueryTerm) -> list[str]:
    """Return the known words that begin with an unfinished word."""
    begun = folded(UNSAYABLE.sub("", pieces(term.text)[-1]).lower()) if term.open and not term.phrase else ""
    if not begun:
        return []
    sql = f"SELECT word FROM word WHERE folded > ? AND folded < ? LIMIT {MAX_COMPLETIONS}"
    return [word for (word,) in connection.execute(sql, (begun, begun + "\U0010ffff"))]
