"""A library of 10,000 documents: time of its index, and of its search beside grep and a scan in Python.

    python -m benchmarks.documents [documents]

The first index is compared, in processor time, with plain FTS5: a file with one table, of which each row is the path
and the text of one document, written in one transaction. The history of the library is part of its time. A checkout
is a fifth of the documents, rewritten while the library watches the folder; it ends when a search finds all of them
and no answer says that the index is behind.

All in one run on one machine, so that only the ratios count. The words of the documents follow Zipf's law, as those of
real texts do; the questions are of rare, middling and common words, and each way has to find the same documents.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from patchbay.documents.collection import Library
from patchbay.documents.files import OWN
from patchbay.sqlite import sqlite3

WORDS = 20_000
WORDS_PER_DOCUMENT = 300
QUERIES = ("w19000x", "w5000x", "w600x", "w60x")
ROUNDS = 15
INDEX_ROUNDS = 3
MAX_RATIO = 3.0
"""How many times the processor time of plain FTS5 the first index takes at most."""

MAX_CHECKOUT_SECONDS = 60.0


def write_documents(folder: Path, documents: int) -> int:
    """Write random documents; return their size in bytes."""
    generator = random.Random(6)
    words = [f"w{number}x" for number in range(WORDS)]
    weights = [1 / (number + 10) for number in range(WORDS)]
    size = 0
    for number in range(documents):
        path = folder / f"specs/p{number % 50}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = " ".join(generator.choices(words, weights, k=WORDS_PER_DOCUMENT))
        text = f"---\ntitle: Document {number}\ntags: [a, b]\n---\n\n{body}\n"
        path.write_text(text)
        size += len(text)
    return size


def search_with_grep(folder: Path, word: str) -> set[str]:
    """Return the documents that contain a word, found by grep."""
    command = ["grep", "-rlw", "--include=*.md", word, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return {line.removeprefix("./") for line in done.stdout.splitlines()}


def search_with_scan(folder: Path, word: str) -> set[str]:
    """Return the documents that contain a word, found by a scan in Python."""
    found = set()
    for path in folder.rglob("*.md"):
        if word in path.read_text("utf-8").lower().split():
            found.add(path.relative_to(folder).as_posix())
    return found


def median_seconds(do: Callable[[], object], rounds: int) -> float:
    """Return the median time of several rounds in seconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        do()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def build_plain_index(folder: Path, file: Path) -> None:
    """Build a plain FTS5 index of all documents."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE VIRTUAL TABLE found USING fts5(path UNINDEXED, body, tokenize='porter unicode61')")
    connection.execute("BEGIN")
    for path in sorted(folder.rglob("*.md")):
        row = (path.relative_to(folder).as_posix(), path.read_text("utf-8"))
        connection.execute("INSERT INTO found VALUES (?, ?)", row)
    connection.execute("COMMIT")
    connection.close()


def build_library_index(folder: Path) -> None:
    """Make the first index and history of a library."""
    with Library(folder) as library:
        library.refresh()


def processor_seconds(do: Callable[[], object]) -> float:
    """Return the seconds of processor time that this process takes for a function."""
    begun = time.process_time()
    do()
    return time.process_time() - begun


def compare_first_index(folder: Path) -> float:
    """Build the first index and plain FTS5 in turn; return the ratio of their best processor times."""
    plain, own = [], []
    for number in range(INDEX_ROUNDS):
        with tempfile.TemporaryDirectory() as temporary:
            plain.append(processor_seconds(partial(build_plain_index, folder, Path(temporary, "plain.sqlite"))))
        shutil.rmtree(folder / OWN, ignore_errors=True)
        own.append(processor_seconds(partial(build_library_index, folder)))
        sys.stdout.write(f"round {number + 1}: plain FTS5 {plain[-1]:.2f} s, first index {own[-1]:.2f} s\n")
    return min(own) / min(plain)


def is_behind(library: Library) -> bool:
    """Whether the index lacks something, read again at each call: the library works on a thread of its own."""
    return library.behind


def check_out(folder: Path, documents: int) -> tuple[float, float]:
    """Rewrite documents that a library watches; seconds from the last write until all are found, and processor time."""
    with Library(folder) as library:
        library.start()
        library.ready(MAX_CHECKOUT_SECONDS)
        while is_behind(library):
            time.sleep(0.05)
        time.sleep(1.5)  # the library watches the folder and has scanned it twice
        used = time.process_time()
        for path in sorted((folder / "specs").rglob("*.md"))[:documents]:
            path.write_text(path.read_text("utf-8") + "checkedout\n", "utf-8")
        begun = time.monotonic()
        end = begun + MAX_CHECKOUT_SECONDS
        while library.search("checkedout ", limit=1).total < documents or is_behind(library):
            assert time.monotonic() < end, f"{documents} changed documents are not found"
            time.sleep(0.02)
        return time.monotonic() - begun, time.process_time() - used


def main(documents: int) -> int:
    """Measure everything and print it; return 1 when the first index takes more than MAX_RATIO times plain FTS5."""
    write = sys.stdout.write
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_documents(folder, documents)
        write(f"{documents} documents, {size / 1e6:.1f} MB\n")
        ratio = compare_first_index(folder)
        write(f"first index: {ratio:.2f} times the processor time of plain FTS5; expected at most {MAX_RATIO:g}\n")
        with Library(folder) as library:
            write(f"scan of an unchanged folder: {median_seconds(library.refresh, 3) * 1000:.0f} ms\n")
        begun = time.perf_counter()
        with Library(folder) as library:
            library.refresh()
            write(f"opened again: {(time.perf_counter() - begun) * 1000:.0f} ms\n")
            for word in QUERIES:
                compare_searches(library, folder, word)
        wall, used = check_out(folder, documents // 5)
        write(f"checkout of {documents // 5} documents: found after {wall:.1f} s, {used:.1f} s of processor time\n")
    return 0 if ratio <= MAX_RATIO else 1


def compare_searches(library: Library, folder: Path, word: str) -> None:
    """Compare one query in the library, grep and Python; all have to find the same documents."""
    query = f"{word} "
    truth, found = search_with_scan(folder, word), library.search(query, limit=1000)
    assert truth == search_with_grep(folder, word) and {hit.row.key for hit in found.hits} <= truth
    assert found.total == len(truth), (word, found.total, len(truth))
    own = median_seconds(lambda: library.search(query), ROUNDS)
    grep = median_seconds(lambda: search_with_grep(folder, word), 3) / own
    scan = median_seconds(lambda: search_with_scan(folder, word), 3) / own
    sys.stdout.write(
        f"{word}, in {len(truth)} documents: {own * 1000:.1f} ms; grep takes {grep:.0f} times that, Python {scan:.0f}\n"
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
