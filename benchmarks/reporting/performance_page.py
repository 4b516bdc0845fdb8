"""Writes docs/performance.md and its pictures from the files of up to three runs.

    scripts/bench --page RUN.json [RUN.json [RUN.json]] [--soak FILE]

The reasons for missed targets stand in benchmarks/missed_targets.md: a heading `## <target>` for each, then the text.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.contenders import BARE, FASTMCP, HUB, INLINE, ISOLATED, SDK, TYPESCRIPT
from benchmarks.load import MODERN, PLAIN, SESSION, STATELESS, condition_of
from benchmarks.reporting.pictures import Bar, draw_bars
from benchmarks.reporting.results import ResultsError, Run
from benchmarks.reporting.soak_report import SoakReport, soak_table
from benchmarks.reporting.tables import Table, format_result, part_tables, quantity, target_table
from benchmarks.reporting.targets import (
    CONNECTIONS,
    LIST_CONDITION,
    MANY_CONNECTIONS,
    OVER_HTTP,
    OVER_STDIO,
    judge,
)

MAX_RUNS = 3
OWN = (HUB, INLINE, ISOLATED)
SUBJECTS = (BARE, INLINE, ISOLATED, FASTMCP, SDK, TYPESCRIPT)
WEB_SERVER = Path(__file__).parents[1] / "web_server.md"
"""How the web server was chosen: measured once, and kept beside the figures of the runs."""

PICTURES_FOLDER = "images"
NOTE = re.compile(r"^## (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

TOP = """\
# Performance

Written by `scripts/bench --page`; do not edit. [How it is measured](../benchmarks/README.md).

Processor time is user and system time of all processes of a server, for each answered call. Its ratios hold on a
machine with other work too; rates and times by the clock depend on the machine. A target is met when every run meets
it. `beside` a peer is the peer's processor time divided by this hub's, in the worst kind of conversation.
What else gateways do is compared on [its own page](comparison.md#as-a-gateway).
"""

SOAK = """\
One hub with many open streams and steady calls. A definition changes again and again, and workers are replaced.
Every answer is checked, and each stream has to receive a notification of each change (`python -m benchmarks.soak`)."""


def make_page(
    runs: Sequence[Run], notes: Mapping[str, str], soak: SoakReport | None = None
) -> tuple[str, dict[str, str]]:
    """Make the page in Markdown, with a section for the soak test if there is one, and its pictures by file name.

    Raises ResultsError for no run or more than MAX_RUNS, and for a note whose target does not exist.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ResultsError(f"{len(runs)} runs are given; expected 1 to {MAX_RUNS}")
    known = {result.target.id for result in judge(runs)}
    if unknown := sorted(set(notes) - known):
        raise ResultsError(f"notes: no target has the name {unknown[0]!r}; expected one of {', '.join(sorted(known))}")
    pictures = dict(_pictures(runs))
    blocks = [TOP, *_warnings(runs), f"## Targets\n\n{markdown(target_table(runs))}", *_misses(runs, notes)]
    blocks += [f"![{_title_of(svg)}]({PICTURES_FOLDER}/{name})" for name, svg in pictures.items()]
    if len(runs) > 1:
        blocks.append("Each figure below is the median of the runs.")
    blocks += [f"## {table.title}\n\n{markdown(table)}" for table in part_tables(runs)]
    blocks.append(f"## The web server\n\n{WEB_SERVER.read_text('utf-8').strip()}")
    if soak is not None:
        blocks.append(f"## Soak\n\n{SOAK}\n\n{markdown(soak_table(soak))}")
    blocks.append(f"## Machine\n\n{markdown(_machines(runs))}")
    return "\n\n".join(block.strip() for block in blocks) + "\n", pictures


def read_notes(text: str) -> dict[str, str]:
    """Read the reasons for missed targets, by the target's name."""
    return {found[1]: found[2].strip() for found in NOTE.finditer(text)}


def write_page(runs: Sequence[Run], notes: Mapping[str, str], folder: Path, soak: SoakReport | None = None) -> Path:
    """Write the page and its pictures into a folder of documents; return the page's file."""
    page, pictures = make_page(runs, notes, soak)
    (folder / PICTURES_FOLDER).mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        (folder / PICTURES_FOLDER / name).write_text(svg, "utf-8")
    file = folder / "performance.md"
    file.write_text(page, "utf-8")
    return file


def markdown(table: Table) -> str:
    """Write a table in Markdown; the columns after the second are aligned to the right."""
    rule = ["---", "---", *["---:"] * (len(table.headings) - 2)]
    lines = [table.headings, rule, *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _warnings(runs: Sequence[Run]) -> Iterator[str]:
    if any(run.is_quick for run in runs):
        yield "**These figures are of a quick run. It shows that everything works; its figures say nothing.**"
    for run in runs:
        for part, reason in run.failures.items():
            yield f"The part `{part}` of the run of {run.began} failed: {reason}"


def _misses(runs: Sequence[Run], notes: Mapping[str, str]) -> Iterator[str]:
    """Explain each missed target: the worst figure, by how much it misses, and the note."""
    missed = [result for result in judge(runs) if result.is_met is False]
    if missed:
        yield "## Missed targets"
    for result in missed:
        worst = quantity(result.target, result.worst)
        aim = quantity(result.target, result.target.aim)
        reason = notes.get(result.target.id, "The reason is not known yet.")
        yield f"**{result.target.sentence}** ({format_result(result)}): {worst}, aim {aim}. {reason}"


def _pictures(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    for name, conversation, connections in (
        ("2026", MODERN, CONNECTIONS),
        ("session", SESSION, CONNECTIONS),
        ("stateless", STATELESS, CONNECTIONS),
        ("many", MODERN, MANY_CONNECTIONS),
    ):
        title = f"Processor time of a call, {condition_of(conversation, connections)} (less is better)"
        bars = [_call_bar(runs, subject, conversation, connections) for subject in SUBJECTS]
        yield from _picture(f"performance-calls-{name}.svg", title, bars)
    title = "Processor time of a list of 1,000 tools (less is better)"
    bars = [_bar(runs, "lists", subject, LIST_CONDITION) for subject in SUBJECTS]
    yield from _picture("performance-lists.svg", title, bars)
    for name, upstream in (("url", OVER_HTTP), ("program", OVER_STDIO)):
        condition = condition_of(upstream, CONNECTIONS)
        gateways = dict.fromkeys(
            row.subject for run in runs for row in run.rows if (row.part, row.condition) == ("gateways", condition)
        )
        bars = [_bar(runs, "gateways", gateway, condition) for gateway in gateways]
        title = f"Processor time of a call through a gateway to {upstream} (less is better)"
        yield from _picture(f"performance-gateways-{name}.svg", title, bars)


def _call_bar(runs: Sequence[Run], subject: str, conversation: str, connections: int) -> Bar | None:
    spoken = PLAIN if subject == BARE else conversation
    return _bar(runs, "calls", subject, condition_of(spoken, connections))


def _bar(runs: Sequence[Run], part: str, subject: str, condition: str) -> Bar | None:
    """Make the bar of a subject: the median of the runs; None when it was not measured."""
    found = [one for run in runs if (one := run.figure(part, subject, condition, "processor_us")) is not None]
    return Bar(subject, statistics.median(found), subject in OWN) if found else None


def _picture(name: str, title: str, bars: Sequence[Bar | None]) -> Iterator[tuple[str, str]]:
    """Draw a picture if there is anything in it."""
    if drawn := [bar for bar in bars if bar is not None]:
        yield name, draw_bars(title, "µs", drawn)


def _title_of(svg: str) -> str:
    found = re.search(r'aria-label="([^"]*)"', svg)
    return found[1] if found else ""


def _machines(runs: Sequence[Run]) -> Table:
    names = list(dict.fromkeys(name for run in runs for name in run.machine))
    rows = [("began", "", *(run.began for run in runs))]
    rows += [(name, "", *(run.machine.get(name, "unknown") for run in runs)) for name in names]
    return Table("Machine", ("what", "", *(f"run {number}" for number in range(1, len(runs) + 1))), rows)
