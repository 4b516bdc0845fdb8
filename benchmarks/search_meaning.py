"""What meaning adds to words: the mean reciprocal rank of known answers by words, by meaning, by both, and of FTS5.

    python -m benchmarks.search_meaning [--embeddings FOLDER] [--costs]

Two sets of documents (`search.py`, `search_second.py`) and the tools of forty packages (`search_tools.py`), by class of
questions. Without FOLDER the model is that of the extra `semantic`. The weight of the meaning was chosen with the first
set, while the figures of the second one were seen too. `--costs` measures a library of 2,604 documents instead (copies
of the first set), and the exact search of 100,000 sections, which compares all of them.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import search_second, search_tools
from benchmarks.search import QUESTIONS, Report, Search, measure_means, print_means, search_fts5, unpack
from patchbay.catalogue.search.tool_search import searchable_texts, text_of_meaning
from patchbay.documents.collection import Library
from patchbay.documents.search import may_find_all
from patchbay.documents.search_results import answered
from patchbay.embeddings.nearest import NearestTexts, packed
from patchbay.embeddings.selection import OFF, select
from patchbay.embeddings.short_texts import ShortTexts

DOCUMENTS = 2604
MANY_SECTIONS = 100_000


def search_documents(library: Library) -> Search:
    """Return the search of a library, as it is for its clients."""
    return lambda question: [hit.row.key.removeprefix("specs/") for hit in library.search(question, limit=10).hits]


def search_sections(library: Library) -> Search:
    """Return the search by meaning alone."""
    meaning = library._index.meaning
    return lambda question: [near.key.removeprefix("specs/") for near in meaning.find(question, may_find_all)]


def compare_documents(
    folder: Path, endings: tuple[str, ...], questions: Path, model: str, report: Report | None = None
) -> None:
    """Print the table of one set of documents; `report` receives each question that words and meaning answer."""
    with Library(folder, endings) as library:
        library.refresh()
        select(OFF)
        table = {"words": measure_means(search_documents(library), asked=questions)}
        select(model)
        library.embed()
        table["meaning"] = measure_means(search_sections(library), asked=questions)
        table["both"] = measure_means(search_documents(library), report, questions)
    print_means(table | {"FTS5": measure_means(search_fts5(folder, endings), asked=questions)})


def compare_tools(model: str, questions: Path = search_tools.QUESTIONS, report: Report | None = None) -> None:
    """Print the table of the tools; `report` receives each question that words and meaning answer."""
    select(OFF)
    table = {"words": measure_means(search_tools.search_hub(), asked=questions)}
    select(model)
    texts = ShortTexts()
    texts.put({answer: text_of_meaning(searchable_texts(wire)) for answer, wire in search_tools.list_tools()})
    table["meaning"] = measure_means(lambda question: list(texts.find(question))[:10], asked=questions)
    table["both"] = measure_means(search_tools.search_hub(), report, questions)
    print_means(table | {"FTS5": measure_means(search_tools.search_fts5(), asked=questions)})


def fill(folder: Path) -> None:
    """Write DOCUMENTS documents into a library's folder: copies of the first set."""
    count = unpack(folder)
    first = sorted((folder / "specs").rglob("*.md"))
    for number in range(count, DOCUMENTS):
        path = first[number % count]
        path.with_name(f"{path.stem}-{number}.md").write_bytes(path.read_bytes() + f"\n{number}\n".encode())


def time_answers(library: Library) -> Iterator[float]:
    """Yield the milliseconds of processor time of the answer to each question, after one round to warm up."""
    questions = [row[0] for rows in json.loads(QUESTIONS.read_text("utf-8")).values() for row in rows]
    for is_measured in (False, True):
        for question in questions:
            begin = time.process_time()
            answered(library, question, {}, lambda row: {"uri": row.key, "title": row.title})
            if is_measured:
                yield 1000 * (time.process_time() - begin)


def measure_library(folder: Path, model: str) -> None:
    """Print what search by meaning costs in a library: time, file, memory, answers."""
    write = sys.stdout.write
    fill(folder)
    for chosen in (OFF, model):
        select(chosen)
        begun = time.process_time()
        with Library(folder) as library:
            library.refresh()
            write(f"{'words' if chosen == OFF else 'both'}: start {time.process_time() - begun:.2f} s,")
            memory, begun = _memory(), time.process_time()
            library.embed()
            took = time.process_time() - begun
            times = sorted(time_answers(library))
            size = (folder / ".library" / "index.sqlite").stat().st_size
            count = sum(len(data) for _, _, data in _vectors(library)) // 256
        write(f" embedding {took:.1f} s of processor time for {count} sections, index {size / 1e6:.1f} MB,")
        write(f" memory {memory:.0f} MB before and {_memory():.0f} MB after embedding and answers,")
        write(f" answers p50 {statistics.median(times):.1f} ms, p95 {statistics.quantiles(times, n=20)[-1]:.1f} ms\n")


def _vectors(library: Library) -> Iterator[tuple[int, str, bytes]]:
    attachments = library._index.meaning._attachments
    for kind in attachments.kinds():
        yield from attachments.changes(kind, set())[1]


def _memory() -> float:
    """Return the greatest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure_exact_search(model: str) -> None:
    """Print the processor time of one exact search in MANY_SECTIONS sections, which compares all."""
    loaded = select(model).load()
    assert loaded is not None
    vectors = np.random.default_rng(0).standard_normal((MANY_SECTIONS, loaded.dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = NearestTexts(loaded.dimensions)
    for number, begin in enumerate(range(0, MANY_SECTIONS, 10)):
        texts.add(number, str(number), packed(vectors[begin : begin + 10]))
    texts.find(loaded, "warm", may_find_all, 20)
    times = []
    for number in range(20):
        begun = time.process_time()
        texts.find(loaded, f"question {number}", may_find_all, 20)
        times.append(1000 * (time.process_time() - begun))
    sys.stdout.write(f"exact search, {MANY_SECTIONS} sections: {statistics.median(times):.1f} ms of processor time\n")


def main() -> int:
    """Print the tables, or the costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embeddings", default="")
    parser.add_argument("--costs", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.costs:
            measure_library(folder, given.embeddings)
            measure_exact_search(given.embeddings)
            return 0
        unpack(folder / "first")
        compare_documents(folder / "first", (".md",), QUESTIONS, given.embeddings)
        search_second.unpack(folder / "second")
        compare_documents(folder / "second", search_second.ENDINGS, search_second.QUESTIONS, given.embeddings)
    compare_tools(given.embeddings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
