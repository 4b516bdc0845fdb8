"""A library of 10,000 documents: how long it is indexed, and searched against grep and a scan in Python.

    python -m benchmarks.documents [documents]

All in one run on one machine, so that only the ratios count. The words of the documents follow Zipf's law, as those of
real texts do; the questions are of rare, middling and common words, and each way has to find the same documents.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from patchbay.documents.collection import Library

WORDS = 20_000
LONG = 300
QUESTIONS = ("w19000x", "w5000x", "w600x", "w60x")
ROUNDS = 15


def filled(folder: Path, documents: int) -> int:
    """Write documents; how many bytes they have."""
    chance = random.Random(6)
    words = [f"w{number}x" for number in range(WORDS)]
    weights = [1 / (number + 10) for number in range(WORDS)]
    size = 0
    for number in range(documents):
        path = folder / f"specs/p{number % 50}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = " ".join(chance.choices(words, weights, k=LONG))
        text = f"---\ntitle: Document {number}\ntags: [a, b]\n---\n\n{body}\n"
        path.write_text(text)
        size += len(text)
    return size


def grepped(folder: Path, word: str) -> set[str]:
    """The documents that grep finds."""
    command = ["grep", "-rlw", "--include=*.md", word, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return {line.removeprefix("./") for line in done.stdout.splitlines()}


def scanned(folder: Path, word: str) -> set[str]:
    """The documents that a scan in Python finds."""
    found = set()
    for path in folder.rglob("*.md"):
        if word in path.read_text("utf-8").lower().split():
            found.add(path.relative_to(folder).as_posix())
    return found


def seconds(do: Callable[[], object], rounds: int) -> float:
    """The median of some rounds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        do()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main(documents: int) -> None:
    """Run it and say what came of it."""
    say = sys.stdout.write
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = filled(folder, documents)
        say(f"{documents} documents, {size / 1e6:.1f} MB\n")
        with Library(folder) as library:
            say(f"first index: {seconds(library.refresh, 1):.1f} s\n")
            say(f"look at an unchanged folder: {seconds(library.refresh, 3) * 1000:.0f} ms\n")
        begun = time.perf_counter()
        with Library(folder) as library:
            library.refresh()
            say(f"opened again: {(time.perf_counter() - begun) * 1000:.0f} ms\n")
            for word in QUESTIONS:
                compare(library, folder, word)


def compare(library: Library, folder: Path, word: str) -> None:
    """One question, asked in three ways."""
    query = f"{word} "
    truth, found = scanned(folder, word), library.search(query, limit=1000)
    assert truth == grepped(folder, word) and {hit.row.key for hit in found.hits} <= truth
    assert found.total == min(len(truth), 200), (word, found.total, len(truth))
    own = seconds(lambda: library.search(query), ROUNDS)
    grep = seconds(lambda: grepped(folder, word), 3) / own
    scan = seconds(lambda: scanned(folder, word), 3) / own
    sys.stdout.write(
        f"{word}, in {len(truth)} documents: {own * 1000:.1f} ms; grep takes {grep:.0f} times that, Python {scan:.0f}\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
