"""Calls of `echo` to the hub and its peers: processor time, rate and delay in each conversation."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import streams
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.load import condition_of, prepare_request
from benchmarks.parameters import Parameters
from benchmarks.placement import Placement
from benchmarks.processor_time import Cost
from benchmarks.reporting.results import Row
from tests.checkout import ROOT

WARM_UP_STREAMED_CALLS = 10


def measure_calls(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure each contender in each of its conversations with each number of connections, and a hop."""
    for contender in CONTENDERS:
        yield from _measure_contender(contender, parameters, placement)
    yield hop_row(parameters.hops)


def hop_row(calls: int) -> Row:
    """Measure a hop between two processes, beside which the cost of an isolated call is read."""
    command = [sys.executable, "-m", "benchmarks.process_hop", str(calls)]
    printed = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return Row(
        "calls", "floor of a hop", "two processes, one call at a time", {"processor_us": printed["processor_us"]}
    )


def measure_yields(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure the time from a tool's yield to the client, for contenders that stream."""
    for contender in filter(lambda contender: contender.is_streaming, CONTENDERS):
        with tempfile.TemporaryDirectory() as name, contender.start(Path(name), placement.server_prefix) as found:
            for conversation in contender.conversations:
                streams.measure_delay(found.url, conversation, WARM_UP_STREAMED_CALLS)
                delay = streams.measure_delay(found.url, conversation, parameters.calls)
                yield Row("yields", contender.name, conversation, {"p50_ms": delay.p50, "p99_ms": delay.p99})


def figures_of(cost: Cost) -> dict[str, float]:
    """Return the figures of calls."""
    measured = cost.measured
    return {
        "processor_us": cost.processor_us,
        "core_share": cost.core_share,
        "rate": measured.rate,
        "p50_ms": measured.p50,
        "p99_ms": measured.p99,
    }


def _measure_contender(contender: Contender, parameters: Parameters, placement: Placement) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name, contender.start(Path(name), placement.server_prefix) as found:
        for conversation in contender.conversations:
            request = prepare_request(found.url, conversation)
            for connections in parameters.connections:
                placement.warm_up(found, request, connections)
                cost = placement.measure_cost(found, request, parameters.seconds, connections)
                yield Row("calls", contender.name, condition_of(conversation, connections), figures_of(cost))
