"""benchmarks/parts.py and processor_time.py: what other programs print is read, and processor time is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks import __main__ as bench
from benchmarks import processor_time
from benchmarks.calls import hop_row
from benchmarks.contenders import run_floor
from benchmarks.load import EXPECTED, PLAIN, LoadResult, prepare_request
from benchmarks.parameters import QUICK, Parameters
from benchmarks.parts import PARTS, Part, start_row, stream_row
from benchmarks.placement import Placement
from benchmarks.processor_time import TICKS_PER_SECOND, cost_of, processor_seconds, wait_until_idle
from benchmarks.reporting.results import Row
from benchmarks.reporting.tables import FIGURES, TITLES
from tests.waiting import BOUND

WORK = "import time\nwhile time.process_time() < 0.5: pass\nprint(time.process_time(), flush=True)\ninput()"


def test_every_part_has_a_title() -> None:
    assert set(PARTS) == set(TITLES)


def test_the_hop_between_two_processes_is_measured_on_both_sides() -> None:
    row = hop_row(calls=300)
    assert (row.part, set(row.figures)) == ("calls", {"processor_us"})
    assert row.figures["processor_us"] > 0


def test_the_floor_of_a_server_answers_what_the_load_expects(tmp_path: Path) -> None:
    with run_floor(tmp_path, ()) as server:
        template = prepare_request(server.url, PLAIN)
        address = urlsplit(server.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=BOUND)
        for id in (7, 8):
            connection.request("POST", address.path, f"{template.body[0]}{id}{template.body[1]}", template.headers)
            answer = json.loads(connection.getresponse().read())
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (id, EXPECTED)
        connection.close()


def test_the_line_of_open_streams_becomes_a_row() -> None:
    printed: dict[str, float] = {"streams": 10_000, "stream_kib": 20.5, "ping_p50_ms": 1, "ping_p99_ms": 7}
    printed |= {"notified_seconds": 0.4, "notified_cpu_us": 60, "shutdown_seconds": 2.5, "rate": 4000}
    printed |= {"rate_with_streams": 3000, "call_cpu_us": 190, "call_cpu_us_with_streams": 200}
    row = stream_row(json.dumps(printed))
    assert (row.part, row.condition) == ("streams", "10,000 streams")
    assert row.figures["rate_kept"] == 0.75
    assert (row.figures["memory_kib"], row.figures["calls_kept"]) == (20.5, 0.95)
    assert set(row.figures) <= set(FIGURES)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            "empty hub, first start      0.91 s     0.83 s",
            Row("start", "first start", "empty hub", {"seconds": 0.91, "processor_ms": 830.0}),
        ),
        (
            "1000 drop-ins, second start 1.50 s     1.20 s",
            Row("start", "second start", "1,000 drop-ins", {"seconds": 1.5, "processor_ms": 1200.0}),
        ),
        (
            "one change, mean of 20      0.30 s     0.0500 s",
            Row("start", "one changed file", "1,000 drop-ins", {"seconds": 0.3, "processor_ms": 50.0}),
        ),
        (
            "idle: 0.50% of a core      20.00 s     0.10 s",
            Row("start", "idle", "1,000 drop-ins", {"core_share": 0.005}),
        ),
    ],
)
def test_a_line_of_a_start_becomes_a_row(line: str, row: Row) -> None:
    found = start_row(f"{line} of processor time\n", 1000)
    assert found is not None
    assert (found.part, found.subject, found.condition) == (row.part, row.subject, row.condition)
    assert found.figures == pytest.approx(row.figures)


def test_a_line_without_a_measurement_is_not_a_row() -> None:
    assert start_row("warming up", 1000) is None


def test_processor_time_counts_processes_below_and_those_that_ended() -> None:
    outer = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORK!r}]); print('over', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        used = float(process.stdout.readline())
        running = processor_seconds(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "over\n"
        ended = processor_seconds(process.pid)
        wait_until_idle(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
    assert used >= 0.5
    assert running >= 0.4
    assert ended >= running - 2 / TICKS_PER_SECOND


def test_the_cost_of_a_call_is_processor_time_over_answers() -> None:
    def load() -> LoadResult:
        before = processor_seconds(os.getpid())
        while processor_seconds(os.getpid()) - before < 0.2:
            pass
        return LoadResult(requests=1000, rate=500.0, p50=1.0, p99=2.0)

    cost = cost_of(os.getpid(), load)
    assert cost.processor_us >= 200
    assert cost.core_share == pytest.approx(cost.processor_us * 500 / 1e6)


def test_a_part_that_fails_is_reported_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(parameters: Parameters, placement: Placement) -> Iterator[Row]:
        yield Row("mount", "before the failure", "", {"added_ms": 1.0})
        raise RuntimeError("no answer")

    def succeed(parameters: Parameters, placement: Placement) -> Iterator[Row]:
        yield Row("pages", "/", "", {"cold_ms": 1.0})

    monkeypatch.setitem(PARTS, "mount", Part(fail))
    monkeypatch.setitem(PARTS, "pages", Part(succeed))
    rows, failures = bench.measure_parts(["mount", "pages"], QUICK)
    assert [row.subject for row in rows] == ["before the failure", "/"]
    assert failures == {"mount": "RuntimeError: no answer"}


@pytest.mark.parametrize("is_load", [True, False])
def test_a_part_that_calls_runs_beside_the_load_and_others_may_use_every_processor(
    monkeypatch: pytest.MonkeyPatch, is_load: bool
) -> None:
    seen = []

    def measure(parameters: Parameters, placement: Placement) -> Iterator[Row]:
        seen.append(os.sched_getaffinity(0))
        yield from ()

    allowed = os.sched_getaffinity(0)
    monkeypatch.setitem(PARTS, "pages", Part(measure, is_load))
    assert bench.measure_parts(["pages"], QUICK) == ([], {})
    assert seen == [{max(allowed)} if is_load else allowed]
    assert os.sched_getaffinity(0) == allowed


def test_a_server_that_stays_busy_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "MAX_WAIT_SECONDS", 1.0)
    monkeypatch.setattr(processor_time, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(processor_time, "IDLE_TICKS", -1)
    with pytest.raises(RuntimeError, match="still busy 1 s after its last call"):
        wait_until_idle(os.getpid())
