"""Checks that what is listed is what can be used, by every way in, for many random grants, principals and servers.

    .venv/bin/python -m benchmarks.visible                       10,000 documents
    .venv/bin/python -m benchmarks.visible --documents 300       a first look

Each document comes with a principal and a server. Every way in (`tests/access/ways.py`) lists and uses what the hub
has, and each outcome is compared with an account of the rules that is independent of the hub's code
(`tests/access/team.py`). Prints one line for each way: outcomes compared, how many of them were allowed, and processor
time. The first difference ends the program with its example, and with the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from patchbay.access.principals import Principal
from tests.access.random_access import documents, principals
from tests.access.team import SERVERS
from tests.access.ways import WAYS, Comparisons, Team

DOCUMENTS = 10_000


def main() -> int:
    """Check all ways, print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="random documents")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="ways to check")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        team = Team(Path(folder))
        try:
            run(team, chosen.ways, chosen.documents, chosen.seed)
        except AssertionError as problem:
            notes = "\n".join(getattr(problem, "__notes__", ()))
            sys.stdout.write(f"different: {problem}\n{notes}\n")
            return 1
        finally:
            team.close()
    return 0


def run(team: Team, ways: list[str], most: int, seed: int) -> None:
    """Check ways for so many documents; print the figures. Raises AssertionError for the first difference."""
    comparisons, seconds, seen = Comparisons(seed), dict.fromkeys(ways, 0.0), 0

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(documents, principals, st.sampled_from(SERVERS))
    def check(document: Any, who: Principal, server: str) -> None:
        nonlocal seen
        seen += 1
        for way in ways:
            begun = time.process_time()
            team.check(way, document, who, server, comparisons)
            seconds[way] += time.process_time() - begun

    check()
    for way in ways:
        allowed, denied = comparisons.counts[way, True], comparisons.counts[way, False]
        line = (
            f"{way:<14} {allowed + denied:>8} outcomes, {allowed:>7} allowed, {denied:>7} denied, {seconds[way]:7.1f} s"
        )
        sys.stdout.write(line + "\n")
    sys.stdout.write(f"{seen} documents, {sum(comparisons.counts.values())} outcomes, no difference\n")


if __name__ == "__main__":
    sys.exit(main())
