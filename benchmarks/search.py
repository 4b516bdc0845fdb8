"""How well a library is searched: the mean reciprocal rank of known answers, beside SQLite's FTS5 and ripgrep.

    python -m benchmarks.search [--misses]

The documents are those of FastAPI 0.110.0 in five languages, fetched from PyPI by pip. The questions and their answers
stand in `search_questions.json`. All three search the same files. A rank is 1 divided by the place of the first right
document among the first ten, else 0. FTS5 has the tokenizer `porter unicode61`, a column for titles with ten times the
weight, and any of the words. ripgrep counts, without regard to case: files with more of the words come first, then
files with more matches. What FTS5 and ripgrep search for are the words of the question; a phrase stays a phrase.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from patchbay.documents.collection import Library
from patchbay.documents.headings import title_of
from patchbay.sqlite import sqlite3

PACKAGE = "fastapi==0.110.0"
LANGUAGES = ("en", "de", "es", "fr", "ru")
QUESTIONS = Path(__file__).with_name("search_questions.json")
KEPT = Path(__file__).resolve().parent.parent / ".pytest_cache" / "search"
DEEPEST_RANK = 10
GOAL = 0.93

Search = Callable[[str], Sequence[str]]
"""The first documents for a question, best first, as `en/tutorial/body.md`."""


def fetched() -> Path:
    """The package, fetched once."""
    KEPT.mkdir(parents=True, exist_ok=True)
    if not list(KEPT.glob("fastapi-*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "fastapi"]
        subprocess.run([*command, "--dest", str(KEPT), PACKAGE], check=True)
    return next(KEPT.glob("fastapi-*.tar.gz"))


def unpack(into: Path, languages: Sequence[str] = LANGUAGES) -> int:
    """Put the documents into a library's folder, as `specs/<language>/<path>`; how many there are."""
    count = 0
    with tarfile.open(fetched()) as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if len(parts) < 5 or parts[1] != "docs" or parts[3] != "docs" or parts[2] not in languages:
                continue
            if not member.isfile() or not member.name.endswith(".md"):
                continue
            target = into / "specs" / parts[2] / PurePosixPath(*parts[4:])
            target.parent.mkdir(parents=True, exist_ok=True)
            opened = archive.extractfile(member)
            assert opened is not None
            target.write_bytes(opened.read())
            count += 1
    return count


def own(folder: Path) -> Search:
    """The library's search."""
    library = Library(folder)
    library.refresh()
    return lambda question: [hit.row.key.removeprefix("specs/") for hit in library.search(question, limit=10).hits]


def fts5(folder: Path) -> Search:
    """SQLite's FTS5 as its documentation shows it."""
    connection = sqlite3.connect(":memory:")
    columns = "path UNINDEXED, title, body, tokenize='porter unicode61'"
    connection.execute(f"CREATE VIRTUAL TABLE found USING fts5({columns})")
    for path in sorted((folder / "specs").rglob("*.md")):
        body = path.read_text("utf-8")
        name = path.relative_to(folder / "specs").as_posix()
        connection.execute("INSERT INTO found VALUES (?, ?, ?)", (name, title_of(body), body))

    def search(question: str) -> list[str]:
        expression = " OR ".join('"' + word.replace('"', '""') + '"' for word in words(question))
        sql = "SELECT path FROM found WHERE found MATCH ? ORDER BY bm25(found, 0, 10, 1) LIMIT 10"
        return [path for (path,) in connection.execute(sql, (expression,))]

    return search


def ripgrep(folder: Path) -> Search:
    """ripgrep, once for each word."""

    def search(question: str) -> list[str]:
        having, counts = Counter[str](), Counter[str]()
        for word in words(question):
            command = ["rg", "--count-matches", "--ignore-case", "--fixed-strings", "-e", word, "."]
            done = subprocess.run(command, cwd=folder / "specs", capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                path, _, count = line.rpartition(":")
                having[path.removeprefix("./")] += 1
                counts[path.removeprefix("./")] += int(count)
        return sorted(having, key=lambda path: (-having[path], -counts[path], path))[:DEEPEST_RANK]

    return search


def words(question: str) -> list[str]:
    """The words and phrases of a question."""
    return [phrase or word for phrase, word in re.findall(r'"([^"]+)"|([^\s"?¿]+)', question)]


def reciprocal_rank(found: Sequence[str], answers: Sequence[str]) -> float:
    """Return 1 divided by the rank of the first right document; 0 without one."""
    return next((1 / place for place, path in enumerate(found[:DEEPEST_RANK], 1) if path in answers), 0.0)


def means(search: Search, told: Callable[[str, str, float, Sequence[str]], None]) -> dict[str, float]:
    """The mean reciprocal rank in each class of questions, and in all."""
    ranks: dict[str, list[float]] = {}
    for kind, questions in json.loads(QUESTIONS.read_text("utf-8")).items():
        for question, *answers in questions:
            found = search(question)
            rank = reciprocal_rank(found, answers)
            ranks.setdefault(kind, []).append(rank)
            told(kind, question, rank, found)
    every = [rank for ranked in ranks.values() for rank in ranked]
    return {kind: statistics.mean(ranked) for kind, ranked in ranks.items()} | {
        f"all {len(every)}": statistics.mean(every)
    }


def main(misses: bool) -> int:
    """Run all three and say what came of it; 1 where the goal is missed."""
    say = sys.stdout.write

    def told(kind: str, question: str, rank: float, found: Sequence[str]) -> None:
        if misses and rank < 1:
            say(f"{rank:.2f} {kind}: {question} -> {', '.join(found[:4])}\n")

    def untold(kind: str, question: str, rank: float, found: Sequence[str]) -> None:
        """Say nothing of the others."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"{unpack(folder)} documents in {len(LANGUAGES)} languages\n")
        table = {"library": means(own(folder), told), "FTS5": means(fts5(folder), untold)}
        if shutil.which("rg"):
            table["ripgrep"] = means(ripgrep(folder), untold)
        else:
            say("ripgrep is not installed: apt-get install ripgrep\n")
    say(f"{'mean reciprocal rank':24}{''.join(f'{name:>10}' for name in table)}\n")
    for kind in table["library"]:
        say(f"{kind:24}{''.join(f'{means[kind]:10.3f}' for means in table.values())}\n")
    ours = table["library"]
    first = all(ours[kind] >= max(other[kind] for other in table.values()) for kind in ours)
    return 0 if first and list(ours.values())[-1] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main("--misses" in sys.argv))
