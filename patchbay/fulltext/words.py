"""Splits queries and texts into words, and writes words as FTS5 expressions.

Every word and phrase is quoted, so that a query cannot contain operators of FTS5.
Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS = 1000, 32
"""Limits on a query; the rest of it is ignored."""

MAX_KEPT_CHARACTERS = 48
"""Characters of the longest text without blanks that is kept in memory with its other forms."""

COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be by can do does for from how i in into is it me my of on or please should that "
        "the this to use using want was what when where which will with would you your",
    )
)
"""English words without meaning for a search; ignored if the query has other words."""

FOREIGN = frozenset(
    re.findall(
        r"\w+",
        "al als ao att au auch auf aus aux av avec bei bin ce ces cette che comment como con cuando cómo da "
        "dans das dass dat de dei del della dem der des desde det di die do dos du dónde een ein eine einem "
        "einen einer eines el ella elle em en entre er es est esta este et för für gli het ich ihr il im ist "
        "je kann kein la las le les leur lo los mais med mein mi mit muy más nach ne nel nicht niet non nos "
        "nous não och oder on ou où par para pas per pero plus por pour puede qu que quel quelle qui quién "
        "qué sa se ser ses si sich sie sind so sobre som son sono sont su sur sus también um uma un una und "
        "une uno uns van vom von voor vor vous was wenn werden wie wird wo y ya zijn zu zum zur être über а "
        "без бы в во вы где для до его если же за и из или их к как ко когда ли мне мой мы на не но о об он "
        "она они от по при с со так то у что чтобы это этот",
    )
)
"""Words of other languages without meaning for a search, except words that have a meaning in English."""

_PLAIN = r"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\s]+"
_RUN = re.compile(rf"{_PLAIN}(?:[._/:@'-]+{_PLAIN})*")
"""A word and the parts that are joined to it: `a.b`, `create_issue`, `utf-8`."""

_SIGN = re.compile(
    r"(?P<emoji>[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff])"
    r"|(?<![\w+#])[A-Za-z]\w{0,7}(?:\+\+|#)(?![\w+#])|(?<![\w.])\.NET\b"
)
_SPELLED_EMOJI = re.compile(r"emoji([0-9a-f]{4,5})")
_SEPARATORS = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")
_FORMLESS = re.compile(r"[a-z0-9]+[.,;:!?)]?")
"""The most frequent texts without blanks that have no other form."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_IDENTIFIER = re.compile(rf"{_PLAIN}(?:[._-]{_PLAIN}){{1,12}}")
UNSAYABLE = re.compile(r"[\x00\x02\x03\ud800-\udfff]")
"""What no index can hold: the end of a text for SQLite, the marks around a match, and half characters."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word or phrase of a query; `open` if it may be the beginning of a longer word."""

    text: str
    phrase: bool = False
    open: bool = False


def significant_words(query: str) -> list[QueryTerm]:
    """Return the words of a query without the common words, unless it has only common words."""
    terms = read(query)
    for common in (COMMON | FOREIGN, COMMON):
        left = [term for term in terms if term.phrase or term.text.lower() not in common]
        if left:
            return left
    return terms


def read(query: str) -> list[QueryTerm]:
    """Return the words and phrases of a query, each once, in order; `begin*` is open. Other characters are ignored."""
    terms: dict[str, QueryTerm] = {}
    chunks = spelled(query[:MAX_QUERY_CHARACTERS]).split('"')
    for number, chunk in enumerate(chunks):
        runs = list(_RUN.finditer(chunk))
        unfinished = number == len(chunks) - 1 and bool(runs) and runs[-1].end() == len(chunk)
        phrase = bool(number % 2)
        words = [run[0] for run in runs if any(one.isalnum() for one in run[0])]
        starred = {run[0] for run in runs if chunk[run.end() : run.end() + 1] == "*"}
        for text in [" ".join(words)] if phrase and words else words:
            terms.pop(text.lower(), None)
            last = unfinished and text.endswith(words[-1]) and (len(text) > 1 or not text.isascii())
            begun = (words[-1] if phrase else text) in starred
            terms[text.lower()] = QueryTerm(text, phrase, last or begun)
    return list(terms.values())[:MAX_QUERY_WORDS]


def spelled(text: str) -> str:
    """Return a text with words in place of the signs that a tokenizer ignores: `C++`, `C#`, `.NET`, emoji."""
    return _SIGN.sub(lambda found: f" {_sign(found)} ", text)


def signs(text: str) -> Iterator[str]:
    """Yield the words that `spelled` puts into a text."""
    return map(_sign, _SIGN.finditer(text))


def sign_of(word: str) -> str:
    """Return the sign that `spelled` replaced by this word, in lower case; empty for a plain word."""
    if found := _SPELLED_EMOJI.fullmatch(word):
        return chr(int(found[1], 16))
    if word == "dotnet":
        return ".net"
    for name, sign in (("plusplus", "++"), ("sharp", "#")):
        if word.endswith(name) and len(word) > len(name):
            return word.removesuffix(name) + sign
    return ""


def _sign(found: re.Match[str]) -> str:
    text = found[0].lower()
    if found["emoji"]:
        return f"emoji{ord(text):x}"
    return text.replace("+", "plus").replace("#", "sharp").replace(".", "dot")


def pieces(word: str) -> list[str]:
    """Return the parts of an identifier (`create_issue`, `createIssue`); a plain word is its only part."""
    found = [piece for part in _SEPARATORS.split(word) for piece in _CAMEL.split(part) if piece]
    return found or [word]


class KnownTexts(dict[str, tuple[str, ...]]):
    """A cache of texts without blanks, each with the other forms of its words: identifiers split into parts, and their
    parts joined.

    The first lookup of a text computes its forms, and appends the text and the forms to the list `new`. The longest
    texts are computed at each lookup.
    """

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def forms(self, text: str) -> list[str]:
        """Return the other forms of the words of a text. No form contains a blank."""
        return list(chain.from_iterable(map(self.__getitem__, text.split())))

    def clear(self) -> None:
        """Empty the cache and the list `new`."""
        super().clear()
        self.new.clear()

    def __missing__(self, text: str) -> tuple[str, ...]:
        forms: tuple[str, ...] = ()
        if not _FORMLESS.fullmatch(text):
            forms = (*signs(text), *chain.from_iterable(map(_forms, _RUN.findall(text))))
        self.new += (text, *forms)
        if len(text) <= MAX_KEPT_CHARACTERS:
            self[text] = forms
        return forms


def _forms(word: str) -> Iterator[str]:
    """Yield the other forms of one word; most words have no other form."""
    if word.isascii() and word.isalnum() and word.islower():
        return
    if _CJK.search(word) is not None:
        yield _spaced(word)
    elif _CAMEL.search(word) is not None:
        yield " ".join(pieces(word))
    if _IDENTIFIER.fullmatch(word) is not None:
        yield _SEPARATORS.sub("", word)


def _spaced(word: str) -> str:
    return _CJK.sub(r" \g<0> ", word)


def fts5_expression(term: QueryTerm, every: bool) -> str:
    """Return a term as an FTS5 expression: a phrase, or any form of a word."""
    star = "*" if term.open else ""
    if term.phrase:
        return quoted(term.text) + star
    if _CJK.search(term.text) is not None:
        return f"({quoted(term.text)}{star} OR {quoted(_spaced(term.text))}{star})"
    found = pieces(term.text)
    if len(found) == 1:
        return quoted(term.text) + star
    *first, last = map(quoted, found)
    single = (" AND " if every else " OR ").join([*first, last + star])
    forms = dict.fromkeys((term.text.lower(), " ".join(found).lower(), "".join(found).lower()))
    return f"({' OR '.join(quoted(form) + star for form in forms)} OR ({single}))"


def exactly(term: QueryTerm) -> str | None:
    """Return a whole identifier as an FTS5 expression; None for a plain word or a phrase."""
    found = pieces(term.text)
    if term.phrase or len(found) == 1 or _CJK.search(term.text) is not None:
        return None
    return f"({quoted(' '.join(found).lower())} OR {quoted(''.join(found).lower())})"


def joined(expressions: Sequence[str], every: bool) -> str:
    """Join search terms with AND (`every`) or OR."""
    return (" AND " if every else " OR ").join(expressions)


def quoted(text: str) -> str:
    """Quote a text as a phrase of the index; replace characters that the index cannot hold."""
    return '"' + UNSAYABLE.sub(" ", text).replace('"', '""') + '"'


def folded(word: str) -> str:
    """Return a word without accents."""
    return (
        word
        if word.isascii()
        else "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))
    )
