"""Runs faults; prints a line of JSON for each, or a table.

.venv/bin/python -m benchmarks.faults                     every fault, some fifteen minutes
.venv/bin/python -m benchmarks.faults killed suspended    some of them
.venv/bin/python -m benchmarks.faults --table             the table of docs/cluster.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.faults.checking import Figures
from benchmarks.faults.faults import FAULTS, run
from benchmarks.faults.packets import has_namespaces

MAX_SHOWN = 12
"""Sentences about faults of one line."""

HEADINGS = (
    "| Fault | Acknowledged | Wrong | Lost | Doubled | Without an end | Refused | Seconds until normal |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
)


def line_of(name: str, figures: Figures) -> str:
    """Return the line of a fault in JSON."""
    told = asdict(figures) | {"faults": figures.faults[:MAX_SHOWN]}
    return json.dumps({"fault": name, **told}) + "\n"


def row_of(name: str, figures: Figures) -> str:
    """Return the row of a fault in the table."""
    counts = (figures.acknowledged, figures.wrong, figures.lost, figures.doubled, figures.endless, figures.refused)
    cells = (FAULTS[name].says, *(f"{count:,}" for count in counts), f"{figures.seconds:.1f}")
    return f"| {' | '.join(cells)} |\n"


def is_well(figures: Figures) -> bool:
    """Whether nothing was wrong, lost, doubled or without an end."""
    return figures.acknowledged > 0 and not (figures.wrong or figures.lost or figures.doubled or figures.endless)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1 when a fault did damage, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(FAULTS)} (default: all; packets needs root)"
    )
    parser.add_argument("--table", action="store_true", help="print a table in Markdown")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in FAULTS]:
        parser.error(f"unknown: {', '.join(unknown)}; expected one of {', '.join(FAULTS)}")
    sys.stdout.write(HEADINGS if given.table else "")
    results = []
    for name in given.names or [name for name in FAULTS if name != "packets" or has_namespaces()]:
        figures = run(name)
        results.append(is_well(figures))
        sys.stdout.write(row_of(name, figures) if given.table else line_of(name, figures))
        sys.stdout.flush()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
