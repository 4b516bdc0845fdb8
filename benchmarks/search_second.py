"""A second measure of a library's search: documents and questions that the search was not made with.

    python -m benchmarks.search_second [--misses]

The documents are those of seven packages of PyPI and npm, in the versions below, fetched by pip and npm the first time.
The questions were written before the search was changed for them, from headings and names of files, and never from
results; several answers are one person's choice among documents that fit. `benchmarks/search.py` says how ranks count.
The last line is the processor time of an answer with 20 results, with sections and marked lines.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from benchmarks.search import CACHE, measure_means, print_means, report_miss, search_fts5, search_library
from patchbay.documents.collection import Library
from patchbay.documents.search_results import answered

PYPI = ("fastmcp==2.12.3", "hatch==1.14.1", "starlette==0.47.3", "mkdocs==1.6.1")
NPM = ("fastify@5.6.0", "undici@7.16.0", "pino@9.9.5")
ENDINGS = (".md", ".mdx")
QUESTIONS = Path(__file__).with_name("search_second_questions.json")
GOAL = 0.93


def fetch_packages(pypi: Sequence[str] = PYPI, npm: Sequence[str] = NPM) -> list[Path]:
    """Return the files of packages, which have exact versions; pip and npm download them the first time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for package in pypi:
        name, _, version = package.partition("==")
        if not list(CACHE.glob(f"{name}-{version}.tar.gz")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
            subprocess.run([*command, "--dest", str(CACHE), package], check=True)
    for package in npm:
        if not (CACHE / f"{package.replace('@', '-')}.tgz").exists():
            subprocess.run(["npm", "pack", "--silent", package], cwd=CACHE, check=True, stdout=subprocess.DEVNULL)
    named = [package.replace("==", "-") + ".tar.gz" for package in pypi]
    return [CACHE / name for name in (*named, *(package.replace("@", "-") + ".tgz" for package in npm))]


def unpack(
    into: Path,
    pypi: Sequence[str] = PYPI,
    npm: Sequence[str] = NPM,
    endings: tuple[str, ...] = ENDINGS,
    top: str | None = None,
) -> int:
    """Write the documents of packages to a library's folder as `specs/<package>/<path>`; return their number.

    With `top`, only those in this folder of each package.
    """
    count = 0
    for package in fetch_packages(pypi, npm):
        name = package.name.rpartition("-")[0]
        with tarfile.open(package) as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts[1:]
                if not member.isfile() or not member.name.endswith(endings) or ".." in parts:
                    continue
                if top is not None and parts[0] != top:
                    continue
                target = into / "specs" / name / PurePosixPath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                opened = archive.extractfile(member)
                assert opened is not None
                target.write_bytes(opened.read())
                count += 1
    return count


def time_answers(folder: Path) -> Iterator[float]:
    """Yield the milliseconds of processor time of the answer to each question, after one round to warm up."""
    questions = [row[0] for rows in json.loads(QUESTIONS.read_text("utf-8")).values() for row in rows]
    with Library(folder, ENDINGS) as library:
        library.refresh()
        for is_measured in (False, True):
            for question in questions:
                begin = time.process_time()
                answered(library, question, {}, lambda row: {"uri": row.key, "title": row.title})
                if is_measured:
                    yield 1000 * (time.process_time() - begin)


def main(misses: bool) -> int:
    """Measure both searches and print the means; return 1 when the goal is missed."""
    write = sys.stdout.write
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(f"{unpack(folder)} documents of {len(PYPI) + len(NPM)} packages\n")
        ours = measure_means(search_library(folder, ENDINGS), report_miss if misses else None, QUESTIONS)
        fts5 = measure_means(search_fts5(folder, ENDINGS), asked=QUESTIONS)
        times = sorted(time_answers(folder))
    print_means({"library": ours, "FTS5": fts5})
    quantiles = statistics.quantiles(times, n=20)
    write(f"milliseconds of an answer: p50 {statistics.median(times):.1f}, p95 {quantiles[-1]:.1f}\n")
    return 0 if list(ours.values())[-1] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main("--misses" in sys.argv))
