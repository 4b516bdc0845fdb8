"""A simulation of many hubs on one PostgreSQL that tell their listeners of changes, with measured constants.

A change is one row on the bus, written with a hint. Each hub reads it, one query at the database, and then writes to
each of its listeners; a hub does one thing at a time, the database as many as it has processors. Changes come at random
times. The simulation is a sum of queues: it knows no network, no garbage collection and no second fault.
"""

from __future__ import annotations

import heapq
import random
import statistics
from dataclasses import dataclass

SECONDS = 600.0
"""Simulated time."""

SEED = 20261127


@dataclass(frozen=True)
class Constants:
    """Measured constants: processor time in microseconds. docs/scale.md says how each was measured.

    `hint_us` is the time until the hint of a change has reached a hub; `write_us` is what the database takes for the
    row and its hint, `read_us` for one reading of the bus; `build_us` is what a hub takes to build a changed server,
    `listener_us` what it takes for each listener.
    """

    hint_us: float = 12_000
    write_us: float = 560
    read_us: float = 200
    build_us: float = 90_000
    listener_us: float = 16
    database_processors: int = 4


def simulate(constants: Constants, nodes: int, listeners: int, changes_a_second: float) -> dict[str, float]:
    """Return the seconds from a change until its last listener is told (p50, p99), and the busy shares.

    A share of 1 or more says that the work comes faster than it is done.
    """
    rng = random.Random(SEED)
    processors = [0.0] * constants.database_processors
    hubs = [0.0] * nodes
    told, now = [], 0.0
    work = (constants.build_us + constants.listener_us * listeners) / 1e6
    while True:
        now += rng.expovariate(changes_a_second)
        if now > SECONDS:
            break
        written = max(now, heapq.heappop(processors)) + constants.write_us / 1e6
        heapq.heappush(processors, written)
        last = 0.0
        for node in range(nodes):
            asked = written + rng.uniform(0.2, 1.0) * constants.hint_us / 1e6
            begun = max(asked, heapq.heappop(processors))
            read = begun + constants.read_us / 1e6
            heapq.heappush(processors, read)
            hubs[node] = max(read, hubs[node]) + work
            last = max(last, hubs[node])
        told.append(last - now)
    cuts = statistics.quantiles(told, n=100)
    return {
        "nodes": nodes,
        "listeners": nodes * listeners,
        "changes_a_second": changes_a_second,
        "told_p50_seconds": round(cuts[49], 3),
        "told_p99_seconds": round(cuts[98], 3),
        "busy_share_of_a_hub": round(work * changes_a_second, 3),
        "busy_share_of_postgresql": round(
            (constants.write_us + constants.read_us * nodes) / 1e6 * changes_a_second / constants.database_processors, 4
        ),
    }
