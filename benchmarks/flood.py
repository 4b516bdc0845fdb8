"""Floods a shared hub as one principal, and measures how long the calls of another one take.

    .venv/bin/python -m benchmarks.flood
    .venv/bin/python -m benchmarks.flood --workers 2
    .venv/bin/python -m benchmarks.flood --seconds 5 --connections 16      a first look

`ann` calls without a pause on many connections (`wrk`), `ben` 45 times a second on one. The hub, `wrk` and ben's client
share the processors of the machine; `--pinned` keeps the hub on the first and `wrk` on the last. Each round measures
the delays of ben's calls without the flood and beside it.

Each line of JSON is one condition: p50 of ben's delays in milliseconds, p99 for each round, `ratios` of p99 with the
flood to p99 without it, and how many requests of ann were answered in a second. `quotas` says whether the quotas of
shared mode are in force, or rows that allow everything. `list` is a flood that no quota counts. The exit code is 0 when
ann's flood changes ben's p99 by less than MAX_RATIO in every round under the quotas of shared mode.

A delay of some milliseconds shows every other program of the machine. On a machine with other work, give all processes
of the benchmark precedence: `setsid chrt --rr 5 .venv/bin/python -m benchmarks.flood`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.contenders import list_definitions
from benchmarks.load import CALL, MODERN, RequestTemplate, prepare_request, run_wrk
from benchmarks.placement import Placement, choose_processors
from patchbay.access.operator_token import TOKEN_FILE
from tests.interaction.programs import running_hub

MAX_RATIO = 2.0
CALLS_PER_SECOND = 45
"""Calls of ben, divided by the number of workers: one connection reaches one worker, with its share of the quotas."""

WARM_UP_SECONDS = 2.0
FLOODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "echo": ("tools/call", CALL),
    "moment": ("tools/call", {"name": "moment", "arguments": {"pause": 0.05}}),
    "list": ("tools/list", {}),
}
"""What ann sends: calls of a tool that ends at once, of one that takes a tenth of a second, and requests for a list."""

ALLOWED = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
UNLIMITED = [{"to": ["*"], "calls_in_flight": 1_000_000, "calls_per_minute": 1_000_000}]


def measure_delays(request: RequestTemplate, seconds: float, calls_per_second: float) -> list[float]:
    """Make calls at a steady pace on one connection; return the milliseconds of each.

    Raises RuntimeError for a wrong answer.
    """
    parts = urlsplit(request.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    found: list[float] = []
    begun = time.perf_counter()
    for number in range(int(seconds * calls_per_second)):
        time.sleep(max(0.0, begun + number / calls_per_second - time.perf_counter()))
        sent = time.perf_counter()
        connection.request("POST", parts.path, str(number).join(request.body), dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        found.append((time.perf_counter() - sent) * 1e3)
        if answer.status != 200 or b"hello, hello" not in body:
            raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")
    connection.close()
    return found


def measure(
    request: RequestTemplate, flood: RequestTemplate, arguments: argparse.Namespace, placement: Placement
) -> dict[str, Any]:
    """Measure ben's calls without ann's, and beside them, in turn: other work of the machine is then in both."""
    pace = CALLS_PER_SECOND / arguments.workers
    measure_delays(request, WARM_UP_SECONDS, pace)
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rates: list[float] = []
    lasts = math.ceil(arguments.seconds / arguments.rounds)
    prefix = placement.load_prefix if arguments.pinned else ()

    def run_flood() -> None:
        sent = run_wrk(flood, lasts + 1, arguments.connections, prefix, "")
        rates.append(sent["requests"] / sent["microseconds"] * 1e6)

    for _ in range(arguments.rounds):
        alone.append(measure_delays(request, lasts, pace))
        thread = threading.Thread(target=run_flood)
        thread.start()
        beside.append(measure_delays(request, lasts, pace))
        thread.join()
    if len(rates) < arguments.rounds:
        raise RuntimeError("the flood did not run")
    before, after = [_quantile(one, 99) for one in alone], [_quantile(one, 99) for one in beside]
    return {
        "p50_ms": statistics.median(_quantile(one, 50) for one in alone),
        "p50_flooded_ms": statistics.median(_quantile(one, 50) for one in beside),
        "p99_ms": before,
        "p99_flooded_ms": after,
        "ratios": [round(flooded / quiet, 2) for quiet, flooded in zip(before, after, strict=True)],
        "ratio": round(statistics.median(after) / statistics.median(before), 2),
        "flood_per_second": round(statistics.mean(rates)),
    }


def _quantile(found: list[float], percent: int) -> float:
    return round(statistics.quantiles(found, n=100)[percent - 1], 2)


def _new_key(name: str, data: Path) -> dict[str, str]:
    command = [sys.executable, "-m", "patchbay", "key", "new", name, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {"Authorization": f"Bearer {done.stdout.strip()}"}


def _set_access(url: str, data: Path, document: Mapping[str, Any]) -> None:
    """Write the variable `access` as the operator."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    token = (data / TOKEN_FILE).read_text().strip()
    connection.request("PUT", "/variables/access", json.dumps(document), {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"PUT /variables/access was answered with {answer.status}: {body[:300]!r}")


def main() -> int:
    """Measure all conditions, print a line of JSON for each, and return the exit code."""
    arguments = _arguments()
    placement, worst = choose_processors(), 0.0
    options = ["--access", "shared", "--isolation", arguments.isolation, "--workers", str(arguments.workers)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "hub"
        prefix = placement.server_prefix if arguments.pinned else ()
        with running_hub(home, list_definitions(), prefix, options, enable="") as hub:
            ann, ben = _new_key("ann", home / "data"), _new_key("ben", home / "data")
            request = prepare_request(hub.endpoint("bench"), MODERN)
            request = replace(request, headers={**request.headers, **ben})
            for has_quotas in (True, False) if arguments.unlimited else (True,):
                document: dict[str, Any] = {"grants": ALLOWED}
                _set_access(hub.url, home / "data", document | ({} if has_quotas else {"quotas": UNLIMITED}))
                for name in arguments.floods:
                    method, params = FLOODS[name]
                    flood = prepare_request(hub.endpoint("bench"), MODERN, params, method)
                    flood = replace(flood, headers={**flood.headers, **ann})
                    found = measure(request, flood, arguments, placement)
                    line = {"flood": name, "quotas": has_quotas}
                    line |= {"workers": arguments.workers, "pinned": arguments.pinned}
                    sys.stdout.write(json.dumps(line | found) + "\n")
                    sys.stdout.flush()
                    worst = max(worst, *found["ratios"]) if has_quotas else worst
    return 0 if worst < MAX_RATIO else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=50.0, help="duration of all rounds of a condition")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of each condition, without the flood and beside it"
    )
    parser.add_argument("--connections", type=int, default=64, help="connections of the flood")
    parser.add_argument("--workers", type=int, default=1, help="workers of the hub")
    parser.add_argument("--pinned", action="store_true", help="the hub on the first processor, the flood on the last")
    parser.add_argument("--isolation", choices=["inline", "process"], default="process")
    parser.add_argument("--floods", nargs="+", choices=list(FLOODS), default=["echo", "moment"], help="what ann sends")
    parser.add_argument("--unlimited", action="store_true", help="measure also without quotas")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
