"""How much processor time this hub takes beside bare Flask, FastMCP and the official SDKs; and what a large hub costs.

    scripts/bench                                the whole run
    scripts/bench --quick                        a few seconds for each part: shows that everything works
    scripts/bench --only calls --only mount      some parts
    scripts/bench --json run-1.json              write all figures with the machine's description and the date
    scripts/bench --page run-1.json run-2.json   write docs/performance.md from files of up to three runs
    scripts/bench --page ... --soak soak.json    add the report of python -m benchmarks.soak --json

All on one machine, one after the other, each server on a processor of its own. README.md explains the figures.
The exit code is 0 when every part could be measured, else 1.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table as ConsoleTable

from benchmarks.parameters import QUICK, Parameters
from benchmarks.parts import PARTS
from benchmarks.placement import choose_processors
from benchmarks.reporting.machine import describe_machine
from benchmarks.reporting.performance_page import read_notes, write_page
from benchmarks.reporting.results import ResultsError, Row, Run, read_run, write_run
from benchmarks.reporting.soak_report import read_soak
from benchmarks.reporting.tables import Table, part_tables, target_table
from tests.checkout import ROOT

NOTES = Path(__file__).parent / "missed_targets.md"
PROGRAMS = ("wrk", "taskset")
CONSOLE_WIDTH = 150


def measure_parts(names: Sequence[str], parameters: Parameters) -> tuple[list[Row], dict[str, str]]:
    """Measure some parts; return their rows, and the error of each part that failed."""
    placement = choose_processors()
    rows: list[Row] = []
    failures: dict[str, str] = {}
    for name in names:
        sys.stderr.write(f"measuring {name}\n")
        try:
            with placement.on_load_processor() if PARTS[name].is_load else nullcontext():
                rows.extend(PARTS[name].measure(parameters, placement))
        except (OSError, RuntimeError, ValueError, AssertionError) as problem:
            failures[name] = f"{type(problem).__name__}: {problem}"
            sys.stderr.write(f"{name} failed: {failures[name]}\n")
    return rows, failures


def print_run(run: Run) -> None:
    """Print the tables of a run."""
    console = Console(width=None if sys.stdout.isatty() else CONSOLE_WIDTH)
    for table in (*part_tables([run]), target_table([run])):
        console.print(_for_console(table))


def run_parts(options: argparse.Namespace) -> int:
    """Measure, print, and write the file; return the exit code."""
    parameters = QUICK if options.quick else Parameters()
    began, machine = datetime.now(UTC).isoformat(timespec="seconds"), describe_machine()
    rows, failures = measure_parts(options.only or list(PARTS), parameters)
    run = Run(began, machine, asdict(parameters), options.quick, rows, failures)
    if options.json:
        write_run(run, options.json)
    print_run(run)
    return 1 if failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure this hub beside its peers.")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="measure this part; repeat for more")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each part; the figures say nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="write the page from files of --json")
    parser.add_argument("--soak", type=Path, metavar="FILE", help="with --page: add the report of a soak test")
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="folder of the page (default: docs)")
    options = parser.parse_args(arguments)
    if options.page:
        try:
            notes = read_notes(NOTES.read_text("utf-8")) if NOTES.exists() else {}
            runs, soak = [read_run(file) for file in options.page], read_soak(options.soak) if options.soak else None
            sys.stdout.write(f"{write_page(runs, notes, options.into, soak)}\n")
        except ResultsError as problem:
            parser.error(str(problem))
        return 0
    if options.soak:
        parser.error("--soak adds a section to the page of --page; name the runs with --page FILE...")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        parser.error(f"{' and '.join(missing)} missing; on Debian: apt-get install wrk util-linux")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return run_parts(options)


def _for_console(table: Table) -> ConsoleTable:
    shown = ConsoleTable(title=table.title)
    for number, heading in enumerate(table.headings):
        shown.add_column(heading, justify="left" if number < 2 else "right")
    for row in table.rows:
        shown.add_row(*(cell.replace("**", "") for cell in row))
    return shown


if __name__ == "__main__":
    sys.exit(main())
