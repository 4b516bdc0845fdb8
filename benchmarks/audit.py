"""Cost of keys, grants and the audit chain: processor time of a call with them and without, as a ratio.

    .venv/bin/python -m benchmarks.audit [--seconds 3] [--rounds 5] [--isolation process]

Three hubs run at once, and the load changes from one to the next: personal; shared, where each call has a key, a
document of grants decides, and quotas count; shared with the audit chain on. Time is user and system time of the whole
hub, its writer of records included, as the hub writes the last records before the next measurement. The median of the
rounds counts. The tools run as `--isolation` says: in a process of their own, which is the default of the hub, or in
the hub itself (`inline`), where a call costs least and the ratio is largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from benchmarks.contenders import RunningServer, list_definitions
from benchmarks.load import MODERN, STATELESS, RequestTemplate, prepare_request, run_wrk
from benchmarks.placement import WARM_UP_SECONDS, Placement, choose_processors
from benchmarks.processor_time import processor_seconds, wait_until_idle
from patchbay.access.keys import PersonalKeys
from patchbay.boot import change_names
from patchbay.stores import open_store
from tests.interaction.programs import running_hub

PERSONAL, SHARED, AUDITED = "personal", "shared, key and grants", "shared, key, grants and audit"
OPTIONS = {
    PERSONAL: ("--activity-contents", "digest"),
    SHARED: ("--access", "shared", "--audit", "off"),
    AUDITED: ("--access", "shared", "--audit", "on"),
}
"""All hubs record digests of contents, so that only access and audit differ."""

CONNECTIONS = 16
GRANTS = {
    "groups": {"team": ["key:bench", "ann@example.org"]},
    "grants": [
        {"to": ["*"], "may": ["see"], "on": ["hello"]},
        {"to": ["team"], "may": ["see", "call", "read"], "on": ["bench.*"]},
    ],
    "denials": [{"to": ["*"], "on": ["*.delete_*"]}],
    "quotas": [{"to": ["*"], "calls_in_flight": 1_000_000, "calls_per_minute": 1_000_000}],
}
"""The quotas are counted at each call; they are never used up, and their pace delays no call."""


def main() -> None:
    """Measure and print one line for each kind of conversation and hub."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isolation", choices=("process", "inline"), default="process")
    options = parser.parse_args()
    placement = choose_processors()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        hubs = {
            name: stack.enter_context(_hub(Path(folder) / str(number), name, options.isolation))
            for number, name in enumerate(OPTIONS)
        }
        for conversation in (MODERN, STATELESS):
            requests_by_hub = {
                name: _prepare_call(found, headers, conversation) for name, (found, headers) in hubs.items()
            }
            measure(
                {name: found for name, (found, _) in hubs.items()}, requests_by_hub, placement, options, conversation
            )


def measure(
    hubs: dict[str, RunningServer],
    requests_by_hub: dict[str, RequestTemplate],
    placement: Placement,
    options: argparse.Namespace,
    conversation: str,
) -> None:
    """Call the hubs in turns; print microseconds of processor time for each call, and the ratio to the personal hub."""
    costs: dict[str, list[float]] = {name: [] for name in hubs}
    for request in requests_by_hub.values():
        run_wrk(request, WARM_UP_SECONDS, CONNECTIONS, placement.load_prefix)
    for _ in range(options.rounds):
        for name, found in hubs.items():
            wait_until_idle(found.pid)
            before = processor_seconds(found.pid)
            requests = placement.measure_cost(
                found, requests_by_hub[name], options.seconds, CONNECTIONS
            ).measured.requests
            wait_until_idle(found.pid)
            costs[name].append((processor_seconds(found.pid) - before) / requests * 1e6)
    base = costs[PERSONAL]
    for name, found_costs in costs.items():
        ratio = statistics.median(one / first for one, first in zip(found_costs, base, strict=True))
        median = statistics.median(found_costs)
        sys.stdout.write(f"{conversation:<28} {name:<32} {median:8.1f} us   ratio {ratio:.3f}\n")
        sys.stdout.flush()


@contextmanager
def _hub(folder: Path, name: str, isolation: str) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """Run one hub; give it and the headers of its calls."""
    headers: dict[str, str] = {}
    options = ("--isolation", isolation, *OPTIONS[name])
    with running_hub(folder, list_definitions(), choose_processors().server_prefix, options) as hub:
        if name != PERSONAL:
            store = open_store("sqlite", folder / "data")
            key = PersonalKeys(store).make("bench", None, None)
            change_names(store, {"variables/access": store.blobs.put(orjson.dumps(GRANTS))}, "bench", "grants")
            store.close()
            headers = {"Authorization": f"Bearer {key}"}
        yield RunningServer(hub.endpoint("bench"), hub.pid), headers


def _prepare_call(found: RunningServer, headers: dict[str, str], conversation: str) -> RequestTemplate:
    request = prepare_request(found.url, conversation)
    return replace(request, headers={**request.headers, **headers})


if __name__ == "__main__":
    main()
