"""Quality of a library's search: the mean reciprocal rank of known answers, beside SQLite's FTS5 and ripgrep.

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from patchbay.documents.collection import Library
from patchbay.documents.headings import title_of
from patchbay.sqlite import sqlite3

PACKAGE = "fastapi==0.110.0"
LANGUAGES = ("en", "de", "es", "fr", "ru")
QUESTIONS = Path(__file__).with_name("search_questions.json")
CACHE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "search"
DEEPEST_RANK = 10
GOAL = 0.93

Search = Callable[[str], Sequence[str]]
"""Returns the first documents for a question, best first, as `en/tutorial/body.md`."""

Report = Callable[[str, str, float, Sequence[str]], None]
"""Receives the class of a question, the question, its reciprocal rank, and the documents found."""


def fetch_package() -> Path:
    """Return the file of the package; pip downloads it the first time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob("fastapi-*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "fastapi"]
        subprocess.run([*command, "--dest", str(CACHE), PACKAGE], check=True)
    return next(CACHE.glob("fastapi-*.tar.gz"))


def unpack(into: Path, languages: Sequence[str] = LANGUAGES) -> int:
    """Write the documents to a library's folder as `specs/<language>/<path>`; return their number."""
    count = 0
    with tarfile.open(fetch_package()) as archive:
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


def search_library(folder: Path, endings: tuple[str, ...] = (".md",)) -> Search:
    """Return the search of a library."""
    library = Library(folder, endings)
    library.refresh()
    return lambda question: [hit.row.key.removeprefix("specs/") for hit in library.search(question, limit=10).hits]


def search_fts5(folder: Path, endings: tuple[str, ...] = (".md",)) -> Search:
    """Return a search with SQLite's FTS5, as its documentation shows it."""
    connection = sqlite3.connect(":memory:")
    columns = "path UNINDEXED, title, body, tokenize='porter unicode61'"
    connection.execute(f"CREATE VIRTUAL TABLE found USING fts5({columns})")
    for path in sorted(one for one in (folder / "specs").rglob("*") if one.name.endswith(endings)):
        body = path.read_text("utf-8")
        name = path.relative_to(folder / "specs").as_posix()
        connection.execute("INSERT INTO found VALUES (?, ?, ?)", (name, title_of(body), body))

    def search(question: str) -> list[str]:
        expression = " OR ".join('"' + word.replace('"', '""') + '"' for word in split_words(question))
        sql = "SELECT path FROM found WHERE found MATCH ? ORDER BY bm25(found, 0, 10, 1) LIMIT 10"
        return [path for (path,) in connection.execute(sql, (expression,))]

    return search


def search_ripgrep(folder: Path) -> Search:
    """Return a search that runs ripgrep once for each word."""

    def search(question: str) -> list[str]:
        having, counts = Counter[str](), Counter[str]()
        for word in split_words(question):
            command = ["rg", "--count-matches", "--ignore-case", "--fixed-strings", "-e", word, "."]
            done = subprocess.run(command, cwd=folder / "specs", capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                path, _, count = line.rpartition(":")
                having[path.removeprefix("./")] += 1
                counts[path.removeprefix("./")] += int(count)
        return sorted(having, key=lambda path: (-having[path], -counts[path], path))[:DEEPEST_RANK]

    return search


def split_words(question: str) -> list[str]:
    """Split a question into words and phrases."""
    return [phrase or word for phrase, word in re.findall(r'"([^"]+)"|([^\s"?¿]+)', question)]


def reciprocal_rank(found: Sequence[str], answers: Sequence[str]) -> float:
    """Return 1 divided by the rank of the first right document; 0 without one."""
    return next((1 / place for place, path in enumerate(found[:DEEPEST_RANK], 1) if path in answers), 0.0)


def measure_means(search: Search, report: Report | None = None, asked: Path = QUESTIONS) -> dict[str, float]:
    """Return the mean reciprocal rank of each class of questions, and of all; `report` receives each question."""
    ranks: dict[str, list[float]] = {}
    for kind, questions in json.loads(asked.read_text("utf-8")).items():
        for question, *answers in questions:
            found = search(question)
            rank = reciprocal_rank(found, answers)
            ranks.setdefault(kind, []).append(rank)
            if report is not None:
                report(kind, question, rank, found)
    every = [rank for ranked in ranks.values() for rank in ranked]
    return {kind: statistics.mean(ranked) for kind, ranked in ranks.items()} | {
        f"all {len(every)}": statistics.mean(every)
    }


def report_miss(kind: str, question: str, rank: float, found: Sequence[str]) -> None:
    """Print a question whose first document is not a right one."""
    if rank < 1:
        sys.stdout.write(f"{rank:.2f} {kind}: {question} -> {', '.join(found[:4])}\n")


def print_means(table: Mapping[str, Mapping[str, float]]) -> None:
    """Print the means of each search, a column for each; the first one names the rows."""
    write = sys.stdout.write
    write(f"{'mean reciprocal rank':24}{''.join(f'{name:>10}' for name in table)}\n")
    for kind in next(iter(table.values())):
        write(f"{kind:24}{''.join(f'{means[kind]:10.3f}' for means in table.values())}\n")


def main(misses: bool) -> int:
    """Measure all three searches and print the means; return 1 when the goal is missed."""
    write = sys.stdout.write
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(f"{unpack(folder)} documents in {len(LANGUAGES)} languages\n")
        table = {
            "library": measure_means(search_library(folder), report_miss if misses else None),
            "FTS5": measure_means(search_fts5(folder)),
        }
        if shutil.which("rg"):
            table["ripgrep"] = measure_means(search_ripgrep(folder))
        else:
            write("ripgrep is not installed: apt-get install ripgrep\n")
    print_means(table)
    ours = table["library"]
    first = all(ours[kind] >= max(other[kind] for other in table.values()) for kind in ours)
    return 0 if first and list(ours.values())[-1] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main("--misses" in sys.argv))
