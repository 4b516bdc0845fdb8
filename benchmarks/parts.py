"""The parts of a run, in their order: each measures one thing and yields rows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import documents, pages, search
from benchmarks.calls import measure_calls, measure_yields
from benchmarks.gateways import measure_gateways
from benchmarks.mounts import measure_mounts
from benchmarks.parameters import Parameters
from benchmarks.placement import Placement
from benchmarks.reporting.results import Row
from benchmarks.servers import measure_lists, measure_servers
from tests.checkout import ROOT

PROGRAM_SECONDS = 3600.0
"""The longest time for a part that is a program of its own."""

START_LINE = re.compile(r"(?P<label>\S.*?)\s+(?P<seconds>[\d.]+) s +(?P<processor>[\d.]+) s of processor time")


def measure_streams(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure open streams with the program that opens them, one hub for each number."""
    for count in parameters.streams:
        printed = _run_program("benchmarks.listeners", "--streams", str(count), "--seconds", f"{parameters.seconds:g}")
        yield stream_row(printed.splitlines()[-1])


def stream_row(line: str) -> Row:
    """Read the line of JSON that the program prints for a number of streams."""
    printed = json.loads(line)
    figures = {
        "memory_kib": printed["stream_kib"],
        "ping_p50_ms": printed["ping_p50_ms"],
        "ping_p99_ms": printed["ping_p99_ms"],
        "told_seconds": printed["notified_seconds"],
        "told_processor_us": printed["notified_cpu_us"],
        "drain_seconds": printed["shutdown_seconds"],
        "calls_kept": printed["call_cpu_us"] / printed["call_cpu_us_with_streams"],
        "rate_kept": printed["rate_with_streams"] / printed["rate"],
        "processor_us": printed["call_cpu_us_with_streams"],
    }
    return Row("streams", "Patchbay inline", f"{printed['streams']:,} streams", figures)


def measure_start(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure starts, a changed file, and an idle hub with the program that does so."""
    options = ["--drop-ins", str(parameters.drop_ins), "--idle", f"{parameters.idle_seconds:g}"]
    for line in _run_program("benchmarks.starting", *options).splitlines():
        if row := start_row(line, parameters.drop_ins):
            yield row


def start_row(line: str, drop_ins: int) -> Row | None:
    """Read one printed line; None when it holds no measurement."""
    found = START_LINE.fullmatch(line.strip())
    if found is None:
        return None
    label, seconds, processor = found["label"], float(found["seconds"]), float(found["processor"])
    condition = f"{drop_ins:,} drop-ins"
    if label.startswith("one change"):
        return Row("start", "one changed file", condition, {"seconds": seconds, "processor_ms": processor * 1e3})
    if label.startswith("idle"):
        return Row("start", "idle", condition, {"core_share": processor / seconds})
    where, _, which = label.partition(", ")
    condition = condition if where != "empty hub" else where
    return Row("start", which, condition, {"seconds": seconds, "processor_ms": processor * 1e3})


def measure_index(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Compare the first index of a library with plain FTS5, in processor time."""
    with tempfile.TemporaryDirectory() as name:
        documents.write_documents(Path(name), parameters.documents)
        ratio = documents.compare_first_index(Path(name))
    yield Row("index", "first index", f"{parameters.documents:,} documents", {"times_fts5": ratio})


def measure_search(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Compare the ranking of a library's search with FTS5's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        search.unpack(folder, parameters.languages)
        for subject, find in (("library", search.search_library(folder)), ("FTS5", search.search_fts5(folder))):
            mean = list(search.measure_means(find).values())[-1]
            condition = f"documents in {len(parameters.languages)} languages"
            yield Row("search", subject, condition, {"reciprocal_rank": mean})


def measure_pages(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure the pages of a large hub."""
    for path, page in pages.measure_in_new_folder(parameters.page_servers, parameters.page_calls).items():
        figures = {"cold_ms": page.cold, "warm_ms": page.warm, "size_kib": page.size / 1024}
        yield Row("pages", path, f"{parameters.page_servers} servers, {parameters.page_calls:,} calls", figures)


def _run_program(module: str, *arguments: str) -> str:
    """Run a program of the benchmark; return its standard output. Raises RuntimeError when it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"python -m {module} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


@dataclass(frozen=True)
class Part:
    """A part of a run.

    `is_load`: this program sends the calls itself, so it runs on the load's processor. Other parts start programs that
    choose their processors, or measure this program itself.
    """

    measure: Callable[[Parameters, Placement], Iterator[Row]]
    is_load: bool = False


PARTS = {
    "calls": Part(measure_calls, is_load=True),
    "lists": Part(measure_lists, is_load=True),
    "yields": Part(measure_yields, is_load=True),
    "streams": Part(measure_streams),
    "mount": Part(measure_mounts, is_load=True),
    "gateways": Part(measure_gateways, is_load=True),
    "start": Part(measure_start),
    "servers": Part(measure_servers, is_load=True),
    "index": Part(measure_index),
    "search": Part(measure_search),
    "pages": Part(measure_pages),
}
