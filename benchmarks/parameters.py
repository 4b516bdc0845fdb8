"""How much a run measures: the usual parameters, and small ones that show that everything works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameters:
    """Seconds of each measurement of calls; connections; and how many of each thing there are."""

    seconds: float = 8.0
    connections: tuple[int, ...] = (16, 128)
    calls: int = 200
    hops: int = 20_000
    streams: tuple[int, ...] = (1_000, 10_000)
    drop_ins: int = 1_000
    idle_seconds: float = 20.0
    tools: int = 1_000
    documents: int = 10_000
    page_servers: int = 300
    page_calls: int = 5_000
    languages: tuple[str, ...] = ("en", "de", "es", "fr", "ru")


QUICK = Parameters(
    seconds=1.0,
    connections=(16,),
    calls=10,
    hops=500,
    streams=(50,),
    drop_ins=10,
    idle_seconds=2.0,
    tools=100,
    documents=200,
    page_servers=10,
    page_calls=40,
    languages=("en",),
)
"""A few seconds for each part. The figures say nothing."""
