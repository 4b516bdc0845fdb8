"""Time of the page of activity with a million records, without a filter and with filters of every kind.

    python -m benchmarks.activity [--records 1000000] [--batch 500] [--without-index]

The records are written as the hub writes them, `--batch` of them in one entry of the journal. Each line shows the
median of five requests: milliseconds of processor time of the process, and milliseconds by the clock.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

from patchbay.activity import record_index
from patchbay.activity.record_index import extend_index
from patchbay.activity.stored_rows import encode_rows
from patchbay.app import create_app
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import ACTIVITY

KEEP_SECONDS = 30 * 24 * 3600.0
SPACING_MILLISECONDS = 200
ENTRIES_PER_TRANSACTION = 500
ROUNDS = 5
RARE = 200_003
"""One call in this number is a call of the rare tool, which fails."""


def main() -> None:
    """Make the records and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--without-index", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), servers=Path(folder) / "servers", activity_size=2**40)
        app = create_app(settings)
        begin = time.time() - options.records * SPACING_MILLISECONDS / 1000
        write_records(app.parts.catalogue.store, options, begin)
        measure(app.test_client(), options, begin)
        app.parts.catalogue.close()


def write_records(store: Store, options: argparse.Namespace, begin: float) -> None:
    """Write all records and, unless `--without-index` is given, their summaries."""
    random, entries = Random(1), list[tuple[str, bytes, float | None]]()
    size, begun = 0, time.process_time()
    for start in range(0, options.records, options.batch):
        rows = [row(random, number, begin) for number in range(start, min(start + options.batch, options.records))]
        entries.append((ACTIVITY, encode_rows(rows), KEEP_SECONDS))
        size += len(entries[-1][1])
        if len(entries) >= ENTRIES_PER_TRANSACTION:
            store.journal.append_all(entries, {})
            entries = []
    store.journal.append_all(entries, {})
    print_line(f"{options.records} records, {size / 2**20:.0f} MiB, written in {time.process_time() - begun:.1f} s")
    begun = time.process_time()
    while not options.without_index and extend_index(store.journal, KEEP_SECONDS):
        pass
    microseconds = (time.process_time() - begun) / options.records * 1e6
    print_line(f"summarized in {microseconds:.2f} us of processor time each, {record_index.RANGE_RECORDS} in a range")


def row(random: Random, number: int, begin: float) -> list[Any]:
    """Return one stored row."""
    is_rare = number % RARE == RARE // 2
    server, tool = ("rare", "seldom") if is_rare else (f"server{number % 20}", f"tool{number % 7}")
    outcome = "error" if is_rare else "tool_error" if number % 1000 == 0 else "ok"
    digest = sha256(str(random.random()).encode()).hexdigest()
    at = int(begin * 1000) + number * SPACING_MILLISECONDS
    plain = [at, random.randrange(300, 90_000), None, "http", server, "tools/call", server, f"bafkversion{server}"]
    who = [None, 1, 0, random.randrange(40, 2000), "local", digest[:16], "benchmark 1", "2025-11-25", digest[:32], None]
    contents = [f'{{"text":"{digest[:20]}"}}', None, f'{{"content":[{{"text":"{digest[20:50]}"}}]}}', None]
    return [*plain, f"bafkdefinition{server}", tool, f"bafkdigest{tool}", outcome, *who, *contents, []]


def measure(client: Any, options: argparse.Namespace, begin: float) -> None:
    """Request the page with each filter and print the times."""
    middle = begin + options.records * SPACING_MILLISECONDS / 2000
    filters: dict[str, dict[str, str]] = {
        "no filter": {},
        "a server of twenty": {"server": "server7"},
        "a tool": {"tool": "tool3"},
        "server and tool": {"server": "server7", "tool": "tool3"},
        "one call in a thousand": {"outcome": "tool_error"},
        "five calls in all": {"tool": "seldom"},
        "no call (server)": {"server": "absent"},
        "no call (outcome)": {"outcome": "timeout"},
        "an hour in the middle": {"since": str(middle), "until": str(middle + 3600)},
        "before all": {"until": str(begin - 10)},
        "rare, in the oldest half": {"tool": "seldom", "until": str(middle)},
        "the last minute": {"since": "1m"},
    }
    for label, chosen in filters.items():
        found = client.get(f"/activity?{urlencode({**chosen, 'limit': '50'})}", headers={"Accept": "application/json"})
        assert found.status_code == 200, found.text
        for accept in ("text/html", "application/json"):
            headers = {"Accept": accept, "Host": "localhost"}
            cpu, wall = measure_median(partial(client.get, f"/activity?{urlencode(chosen)}", headers=headers))
            count, more = len(found.json["records"]), "more" if found.json["next"] else "no more"
            print_line(f"{label:<28} {accept:<18} {cpu:7.1f} ms {wall:7.1f} ms by the clock; {count} records, {more}")


def measure_median(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the median milliseconds of processor time and by the clock."""
    times = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    return statistics.median(cpu for cpu, _ in times) * 1000, statistics.median(wall for _, wall in times) * 1000


def print_line(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
