"""The targets: each with its aim, the figure that is held against it, and the figure by the clock beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import BARE, FASTMCP, HUB, INLINE, ISOLATED, TYPESCRIPT
from benchmarks.load import MODERN, PLAIN, SESSION, STATELESS, condition_of
from benchmarks.reporting.figures import Figure, choose, choose_among, quotient, read
from benchmarks.reporting.results import Run

CONNECTIONS, MANY_CONNECTIONS = 16, 128
CONVERSATIONS = (SESSION, STATELESS, MODERN)
LIST_CONDITION = f"1,000 tools, {condition_of(MODERN, CONNECTIONS)}"
STREAMS, DROP_INS, EMPTY, DOCUMENTS = "10,000 streams", "1,000 drop-ins", "empty hub", "10,000 documents"
PAGES, LANGUAGES = "300 servers, 5,000 calls", "documents in 5 languages"
OVER_HTTP, OVER_STDIO = "a server at a URL", "a program on stdio"
HTTP_MOUNT, PROGRAM_MOUNT = "mount over HTTP", "mount of a program"


@dataclass(frozen=True)
class Target:
    """One target. The figure is to be at most the aim, or at least, if `is_least`.

    `clock` reads the ratio of rates or the like that stands beside a ratio of processor time.
    """

    id: str
    sentence: str
    aim: float
    unit: str
    figure: Figure
    clock: Figure | None = None
    is_least: bool = False

    def is_met_by(self, figure: float) -> bool:
        """Whether a figure reaches the aim."""
        return figure >= self.aim if self.is_least else figure <= self.aim

    def missed_by(self, figure: float) -> float:
        """Return by which part of the aim a figure misses it; 0 when it is met."""
        gap = self.aim - figure if self.is_least else figure - self.aim
        return max(0.0, gap / self.aim)


@dataclass(frozen=True)
class TargetResult:
    """A target with its figures and those by the clock, one for each run, None where a run did not measure it."""

    target: Target
    figures: Sequence[float | None]
    clocks: Sequence[float | None]

    @property
    def worst(self) -> float | None:
        """The figure that is farthest from the aim; None when no run measured it."""
        found = [one for one in self.figures if one is not None]
        if not found:
            return None
        return min(found) if self.target.is_least else max(found)

    @property
    def is_met(self) -> bool | None:
        """Whether every run that measured it reached the aim; None when no run measured it."""
        return None if self.worst is None else self.target.is_met_by(self.worst)


def judge(runs: Sequence[Run]) -> list[TargetResult]:
    """Hold runs against every target."""
    return [
        TargetResult(
            target,
            [target.figure(run) for run in runs],
            [target.clock(run) if target.clock else None for run in runs],
        )
        for target in TARGETS
    ]


def _calls(subject: str, conversation: str, name: str, connections: int = CONNECTIONS) -> Figure:
    return read("calls", subject, condition_of(conversation, connections), name)


def _beside(peer: str, subject: str) -> tuple[Figure, Figure]:
    """Return how many times a subject's call costs a peer, in the worst conversation, and the ratio of the rates."""
    costs, rates = [], []
    for conversation in CONVERSATIONS:
        other = PLAIN if peer == BARE else conversation
        costs.append(quotient(_calls(peer, other, "processor_us"), _calls(subject, conversation, "processor_us")))
        rates.append(quotient(_calls(subject, conversation, "rate"), _calls(peer, other, "rate")))
    return choose(min, costs), choose(min, rates)


def _many_connections() -> tuple[Figure, Figure]:
    """Return how many times an isolated call on 16 connections one on 128 costs, and the ratio of the rates."""
    cost, rate = (
        quotient(_calls(ISOLATED, MODERN, name, MANY_CONNECTIONS), _calls(ISOLATED, MODERN, name))
        for name in ("processor_us", "rate")
    )
    return cost, rate


def _lists() -> tuple[Figure, Figure]:
    """Return how many times a list of this hub costs FastMCP, and the ratio of the rates."""

    def list_of(subject: str, name: str) -> Figure:
        return read("lists", subject, LIST_CONDITION, name)

    cost = quotient(list_of(FASTMCP, "processor_us"), list_of(INLINE, "processor_us"))
    return cost, quotient(list_of(INLINE, "rate"), list_of(FASTMCP, "rate"))


def _mount_cost() -> Figure:
    """Return how many times an inline call a mounted call costs the hub that mounts, in the worse era."""
    return choose(
        max,
        [
            quotient(*(read("mount", HTTP_MOUNT, era, name) for name in ("processor_us", "direct_processor_us")))
            for era in (SESSION, MODERN)
        ],
    )


def _gateways(upstream: str) -> Figure:
    """Return how many times a call through this hub one through the cheapest other gateway costs."""
    condition = condition_of(upstream, CONNECTIONS)
    own = read("gateways", HUB, condition, "processor_us")

    def ratio(run: Run) -> float | None:
        others = [
            row.figures["processor_us"]
            for row in run.rows
            if (row.part, row.condition) == ("gateways", condition) and row.subject != HUB
        ]
        cost = own(run)
        return min(others) / cost if others and cost else None

    return ratio


def _streams(name: str) -> Figure:
    return read("streams", INLINE, STREAMS, name)


def _start(subject: str, name: str, condition: str = DROP_INS) -> Figure:
    return read("start", subject, condition, name)


CALL_TARGETS = (
    Target("inline-fastmcp", "An inline call beside one of FastMCP", 12, "times", *_beside(FASTMCP, INLINE), True),
    Target("inline-flask", "An inline call beside a bare Flask view", 1, "", *_beside(BARE, INLINE), True),
    Target(
        "inline-typescript",
        "An inline call beside one of the TypeScript SDK",
        1,
        "times",
        *_beside(TYPESCRIPT, INLINE),
        True,
    ),
    Target("isolated-fastmcp", "An isolated call beside one of FastMCP", 6, "times", *_beside(FASTMCP, ISOLATED), True),
    Target("isolated-many", "An isolated call on 128 connections to one on 16", 1.5, "times", *_many_connections()),
    Target("lists", "`tools/list` of 1,000 tools beside FastMCP", 100, "times", *_lists(), True),
    Target(
        "yields",
        "From a tool's yield to the client, p50",
        5,
        "ms",
        choose_among(max, "yields", "p50_ms", (INLINE, ISOLATED)),
    ),
)
"""A ratio `beside` a peer is the peer's processor time divided by this hub's, in the worst conversation."""

MOUNT_TARGETS = (
    Target(
        "mount-added", "A mount over HTTP adds, p50", 1, "ms", choose_among(max, "mount", "added_ms", (HTTP_MOUNT,))
    ),
    Target("mount-cost", "A mounted call to an inline call", 2, "times", _mount_cost()),
    Target(
        "mount-program",
        "A mounted program adds, p50",
        1,
        "ms",
        choose_among(max, "mount", "added_ms", (PROGRAM_MOUNT,)),
    ),
)

GATEWAY_TARGETS = (
    Target(
        "gateway-url",
        "The cheapest other gateway to a URL beside this hub",
        1,
        "times",
        _gateways(OVER_HTTP),
        None,
        True,
    ),
    Target(
        "gateway-program",
        "The cheapest other gateway to a program beside this hub",
        1,
        "times",
        _gateways(OVER_STDIO),
        None,
        True,
    ),
)

STREAM_TARGETS = (
    Target("streams-memory", "Memory of each of 10,000 streams", 12, "KiB", _streams("memory_kib")),
    Target("streams-ping", "A ping beside 10,000 streams, p99", 50, "ms", _streams("ping_p99_ms")),
    Target("streams-told", "A change sent to 10,000 streams", 2, "s", _streams("told_seconds")),
    Target("streams-drain", "A hub with 10,000 streams ends", 5, "s", _streams("drain_seconds")),
    Target(
        "streams-calls",
        "Calls left beside 10,000 streams",
        0.9,
        "",
        _streams("calls_kept"),
        _streams("rate_kept"),
        True,
    ),
)

START_TARGETS = (
    Target("start-empty", "An empty hub starts", 0.7, "s", _start("first start", "seconds", EMPTY)),
    Target("start-first", "A hub with 1,000 drop-ins starts, first time", 3, "s", _start("first start", "seconds")),
    Target("start-again", "A hub with 1,000 drop-ins starts, again", 1.2, "s", _start("second start", "seconds")),
    Target("change-live", "One changed file among 1,000 is live", 0.5, "s", _start("one changed file", "seconds")),
    Target("change-cost", "Processor time of that change", 50, "ms", _start("one changed file", "processor_ms")),
    Target("idle", "Share of a processor of an idle hub with 1,000", 0.01, "", _start("idle", "core_share")),
)

OTHER_TARGETS = (
    Target(
        "index",
        "First index of 10,000 documents to plain FTS5",
        3,
        "times",
        read("index", "first index", DOCUMENTS, "times_fts5"),
    ),
    Target(
        "search",
        "Mean reciprocal rank of known answers",
        0.93,
        "",
        read("search", "library", LANGUAGES, "reciprocal_rank"),
        is_least=True,
    ),
    Target(
        "pages",
        "Every page of a hub with 300 servers",
        300,
        "ms",
        choose_among(max, "pages", "cold_ms", condition=PAGES),
    ),
)

TARGETS = (*CALL_TARGETS, *MOUNT_TARGETS, *GATEWAY_TARGETS, *STREAM_TARGETS, *START_TARGETS, *OTHER_TARGETS)
