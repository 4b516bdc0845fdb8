"""The processor time of a call through a toolset beside the same call at its origin, as ratios in one run.

    .venv/bin/python -m benchmarks.toolsets --rounds 20 --calls 500

One hub serves the inline definition of the benchmark, a toolset with its tools, and one that shapes the result with jq.
Short turns alternate on one connection each, so that other work of the machine falls on all of them. Prints one line of
JSON: the medians of microseconds of a call, and of the ratios to the turn at the origin beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.contenders import list_definitions, run_hub_with
from benchmarks.load import STATELESS, RequestTemplate, prepare_request
from benchmarks.processor_time import processor_seconds, wait_until_idle

ORIGIN = "bench"
TOOLSETS: Mapping[str, Mapping[str, object]] = {
    "toolset": {"include": [f"{ORIGIN}.echo"]},
    "toolset_with_jq": {"tools": {"echo": {"from": f"{ORIGIN}.echo", "result": "."}}},
}
WARM_UP_CALLS = 500


def make_calls(connection: http.client.HTTPConnection, request: RequestTemplate, count: int) -> None:
    """Make calls on a connection. Raises RuntimeError for a wrong answer."""
    path = urlsplit(request.url).path
    for number in range(count):
        connection.request("POST", path, f"{number}".join(request.body), dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or b"hello, hello" not in body:
            raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")


def measure(rounds: int, calls: int) -> dict[str, float]:
    """Run the hub and measure the addresses in turn."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = [folder / f"{name}.json" for name in TOOLSETS]
        for file, toolset in zip(files, TOOLSETS.values(), strict=True):
            file.write_text(json.dumps({"kind": "toolset", **toolset}))
        hub = stack.enter_context(run_hub_with([*list_definitions(), *files], "inline", folder, ()))
        names = [ORIGIN, *TOOLSETS]
        urls = {name: f"{hub.url.removesuffix(ORIGIN)}{name}" for name in names}
        requests = {name: prepare_request(url, STATELESS) for name, url in urls.items()}
        connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=30)
        stack.callback(connection.close)
        for request in requests.values():
            make_calls(connection, request, WARM_UP_CALLS)
        wait_until_idle(hub.pid)
        figures: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            for name in names if number % 2 else names[::-1]:
                before = processor_seconds(hub.pid)
                make_calls(connection, requests[name], calls)
                figures[name].append((processor_seconds(hub.pid) - before) / calls * 1e6)
    shown: dict[str, float] = {f"{name}_us": round(statistics.median(times), 1) for name, times in figures.items()}
    for name in TOOLSETS:
        ratios = [made / plain for made, plain in zip(figures[name], figures[ORIGIN], strict=True)]
        shown[f"{name}_ratio"] = round(statistics.median(ratios), 3)
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.toolsets", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="turns of each address (default: 20)")
    parser.add_argument("--calls", type=int, default=500, help="calls of one turn (default: 500)")
    given = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(measure(given.rounds, given.calls)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
