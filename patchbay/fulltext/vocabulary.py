"""Looks up the words of an index while a query is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from patchbay.fulltext.words import UNSAYABLE, QueryTerm, folded, pieces, quoted
from patchbay.sqlite import sqlite3

MAX_COMPLETIONS = 32
"""Limit on the known words that complete an unfinished word."""


class IndexVocabulary:
    """The words of an index, read through one connection. `check_time` raises TimedOut when the time is over."""

    def __init__(self, connection: sqlite3.Connection, check_time: Callable[[], None]) -> None:
        self._connection = connection
        self._check_time = check_time

    def between(self, begin: str, end: str, most: int) -> list[str]:
        return self._words("folded >= ? AND folded < ? LIMIT ?", begin, end, most)

    def containing(self, part: str, letters: int, most: int) -> list[str]:
        condition = "instr(folded, ?) > 0 AND length(folded) >= ? ORDER BY length(folded), folded LIMIT ?"
        return self._words(condition, part, letters, most)

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
