"""The processor time of a call through a toolset beside the same call at its origin, as ratios in one run.

    .venv/bin/python -m benchmarks.toolsets --rounds 200 --calls 50

One hub serves the inline definition of the benchmark, a toolset with its tools, and one that shapes the result with jq.
Turns of a few hundredths of a second alternate on one connection, so that other work of the machine falls on all of
them. Prints one line of JSON: the medians of microseconds of a call, and the median and the quartiles of the ratios to
the turn at the origin beside it.

    .venv/bin/python -m benchmarks.toolsets --lists

lists a toolset of 1,000 tools in this process, and prints the microseconds of processor time of the first list of each
revision, of a list again, of the first list of each of twenty keys with the same rights, and with other rights.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.contenders import list_definitions, run_hub_with
from benchmarks.load import STATELESS, RequestTemplate, prepare_request
from benchmarks.processor_time import processor_seconds, wait_until_idle
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import BOTH, Hub

ORIGIN = "bench"
TOOLSETS: Mapping[str, Mapping[str, object]] = {
    "toolset": {"include": [f"{ORIGIN}.echo"]},
    "toolset_with_jq": {"tools": {"echo": {"from": f"{ORIGIN}.echo", "result": "."}}},
}
WARM_UP_CALLS = 500

LISTED_TOOLS, LISTS_AGAIN, KEYS = 1000, 50, 20
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def make_calls(connection: http.client.HTTPConnection, request: RequestTemplate, count: int) -> None:
    """Make calls on a connection. Raises RuntimeError for a wrong answer."""
    path = urlsplit(request.url).path
    for number in range(count):
        connection.request("POST", path, f"{number}".join(request.body), dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or b"hello, hello" not in body:
            raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")


def measure(rounds: int, calls: int) -> dict[str, Any]:
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
    shown: dict[str, Any] = {f"{name}_us": round(statistics.median(times), 1) for name, times in figures.items()}
    for name in TOOLSETS:
        ratios = [made / plain for made, plain in zip(figures[name], figures[ORIGIN], strict=True)]
        lower, middle, upper = statistics.quantiles(ratios, n=4)
        shown[f"{name}_ratio"] = round(middle, 3)
        shown[f"{name}_ratio_quartiles"] = [round(lower, 3), round(upper, 3)]
    return shown


def measure_lists(tools: int, times: int) -> dict[str, float]:
    """List a toolset of so many tools as several callers; return microseconds and ratios to a list again."""
    source = "\n\n".join(f'def tool_{n}(value: str) -> str:\n    """Do {n}."""\n    return value' for n in range(tools))
    files = {"many.py": source, "wide.json": json.dumps({"kind": "toolset", "include": ["many"]})}
    with tempfile.TemporaryDirectory() as folder:
        hub = team_hub(Path(folder), files)
        keys = [f"key{number}" for number in range(KEYS)]
        others = [f"other{number}" for number in range(KEYS)]
        grants = [{"to": [f"key:{name}" for name in (*keys, *others)], "may": ["call"], "on": ["wide"]}]
        denials = [{"to": [f"key:{name}"], "on": [f"many.tool_{number}"]} for number, name in enumerate(others)]
        set_grants(hub, {"grants": grants, "denials": denials})
        same, other = ([new_key(hub, name) for name in names] for names in (keys, others))
        _time_list(hub, "wide", LEGACY[0], same[0], tools)  # the first request of a hub imports modules
        figures: dict[str, list[float]] = {"first": [], "again": [], "same_rights": [], "other_rights": []}
        for revision in LEGACY[1:]:
            figures["first"].append(_time_list(hub, "wide", revision, same[0], tools))
            figures["again"] += [_time_list(hub, "wide", revision, same[0], tools) for _ in range(times)]
        figures["same_rights"] = [_time_list(hub, "wide", LEGACY[-1], one, tools) for one in same[1:]]
        figures["other_rights"] = [_time_list(hub, "wide", LEGACY[-1], one, tools - 1) for one in other]
        hub.close()
    medians = {name: statistics.median(one) for name, one in figures.items()}
    shown = {f"list_{name}_us": round(one, 1) for name, one in medians.items()}
    return shown | {
        f"list_{name}_ratio": round(one / medians["again"], 1) for name, one in medians.items() if name != "again"
    }


def _time_list(hub: Hub, server: str, revision: str, key: Mapping[str, str], expected: int) -> float:
    """Return the microseconds of processor time of a list. Raises RuntimeError for a wrong number of tools."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    headers = {**key, "Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": revision}
    begun = time.process_time()
    answer = hub.client.post(f"/mcp/{server}", data=body, headers=headers).get_data()
    taken = (time.process_time() - begun) * 1e6
    if answer.count(b'"inputSchema"') != expected:
        raise RuntimeError(f"expected {expected} tools: {answer[:300]!r}")
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.toolsets", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="turns of each address (default: 200)")
    parser.add_argument("--calls", type=int, default=50, help="calls of one turn (default: 50)")
    parser.add_argument("--lists", action="store_true", help="lists of 1,000 tools in place of calls")
    given = parser.parse_args(arguments)
    found = measure_lists(LISTED_TOOLS, LISTS_AGAIN) if given.lists else measure(given.rounds, given.calls)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
