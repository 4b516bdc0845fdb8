"""The tables that a run ends with: every measurement beside those it is to be compared with, and the goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from benchmarks.contenders import BARE, FASTMCP, INLINE, ISOLATED
from benchmarks.load import PLAIN, Measured
from benchmarks.mounts import Added
from benchmarks.pages import GOAL, Opened
from benchmarks.streams import Cost, Delay

Rates = Mapping[str, Mapping[str, Measured]]
Delays = Mapping[str, Mapping[str, Delay]]

FASTER = {INLINE: 8.0, ISOLATED: 4.0}
"""How many times the rate of FastMCP is the goal."""

BARE_SHARE = 0.6
"""The part of the bare view's rate that inline calls are to reach."""

SOON = 5.0
"""Milliseconds from a yield to the client, half of the time."""

ADDED = 1.0
"""Milliseconds that a mount may add to a call, half of the time."""

KEPT, EACH = 0.85, 64.0
"""The part of the rate that is left beside many open streams, and KiB that each may cost."""


def rates(found: Rates, connections: int) -> Table:
    """Calls per second, and how they compare with FastMCP in the same revision and with the bare view."""
    shown = _table(f"tools/call echo, {connections} connections, one processor for the server", "server")
    for heading in ("revision", "requests/s", "p50 ms", "p99 ms", "to FastMCP", "to bare Flask"):
        shown.add_column(heading, justify="right")
    bare = found[BARE][PLAIN]
    for name, rows in found.items():
        for revision, row in rows.items():
            ratio = f"{_faster(found, name, revision):.2f}x" if revision in found[FASTMCP] else ""
            numbers = (f"{row.rate:,.0f}", f"{row.p50:.2f}", f"{row.p99:.2f}", ratio, f"{row.rate / bare.rate:.2f}")
            shown.add_row(name, revision, *numbers)
    return shown


def delays(found: Delays) -> Table:
    """The time from a tool's yield to the client."""
    shown = _table("from a yield to its first byte at the client", "server")
    for heading in ("revision", "p50 ms", "p99 ms", "to FastMCP"):
        shown.add_column(heading, justify="right")
    for name, rows in found.items():
        for revision, row in rows.items():
            ratio = f"{row.p50 / found[FASTMCP][revision].p50:.2f}"
            shown.add_row(name, revision, f"{row.p50:.2f}", f"{row.p99:.2f}", ratio)
    return shown


def mounts(found: Mapping[str, Added]) -> Table:
    """What a mount adds to a call."""
    shown = _table("one call of echo directly and through a mount, one caller, loopback HTTP", "revision on both sides")
    for heading in ("direct p50 ms", "mounted p50 ms", "added ms", "goal ms"):
        shown.add_column(heading, justify="right")
    for revision, row in found.items():
        shown.add_row(revision, f"{row.direct:.2f}", f"{row.mounted:.2f}", f"{row.added:.2f}", f"{ADDED:.1f}")
    return shown


def costs(found: Mapping[str, Cost]) -> Table:
    """What open streams cost the calls beside them, and in memory."""
    shown = _table("open streams beside the same calls", "server")
    for heading in ("streams", "requests/s without", "with", "ratio", "KiB each"):
        shown.add_column(heading, justify="right")
    for name, row in found.items():
        numbers = (f"{row.without:,.0f}", f"{row.beside:,.0f}", f"{row.kept:.2f}", f"{row.each:.1f}")
        shown.add_row(name, f"{row.streams:,}", *numbers)
    return shown


def goals(rated: Rates, delayed: Delays, cost: Mapping[str, Cost], opened: Mapping[str, Opened]) -> Table:
    """What was aimed at, what came of it in the worst revision or run, and whether that is reached."""
    shown = _table("goals", "goal")
    for heading in ("aim", "worst", "reached"):
        shown.add_column(heading, justify="right")
    for what, aim, worst, reached in (*_goals(rated, delayed, cost), _page_goal(opened)):
        shown.add_row(what, aim, worst, "yes" if reached else "NO")
    return shown


def _goals(rated: Rates, delayed: Delays, cost: Mapping[str, Cost]) -> Iterator[tuple[str, str, str, bool]]:
    for name, aim in FASTER.items():
        worst = min(_faster(rated, name, revision) for revision in rated[name])
        yield f"{name}: calls to FastMCP", f">= {aim:g}x", f"{worst:.2f}x", worst >= aim
    share = min(row.rate for row in rated[INLINE].values()) / rated[BARE][PLAIN].rate
    yield f"{INLINE}: calls to bare Flask", f">= {BARE_SHARE:g}", f"{share:.2f}", share >= BARE_SHARE
    for name in FASTER:
        slowest = max(row.p50 for row in delayed[name].values())
        yield f"{name}: median from a yield to the client", f"<= {SOON:g} ms", f"{slowest:.2f} ms", slowest <= SOON
    kept, each = min(row.kept for row in cost.values()), max(row.each for row in cost.values())
    streams = next(iter(cost.values())).streams
    yield f"calls beside {streams:,} open streams", f">= {KEPT:g}", f"{kept:.2f}", kept >= KEPT
    yield "memory of each", f"<= {EACH:g} KiB", f"{each:.1f} KiB", each <= EACH


def _page_goal(opened: Mapping[str, Opened]) -> tuple[str, str, str, bool]:
    slowest = max(max(page.cold, page.warm) for page in opened.values())
    return "pages of a large hub", f"<= {GOAL:.0f} ms", f"{slowest:.0f} ms", slowest <= GOAL


def _faster(found: Rates, name: str, revision: str) -> float:
    return found[name][revision].rate / found[FASTMCP][revision].rate


def _table(title: str, first: str) -> Table:
    shown = Table(title=title)
    shown.add_column(first)
    return shown
