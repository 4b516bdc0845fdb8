"""Measures what the record of a call costs: processor time of the thread that writes records, beside the whole process.

    .venv/bin/python -m benchmarks.records [--calls 20000]

Calls of an inline tool run in this process, in a session of 2025-11-25, each with arguments and answer in its record.
The line of JSON has the number of calls, microseconds of processor time of the writer for each, of the whole process
(which is the client of the calls too) for each, and the share of the writer.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.contenders import list_definitions
from benchmarks.load import CALL, COMMON, SESSION_REVISION
from patchbay.app import create_app
from patchbay.settings import Settings

WRITER = "activity"
"""The name of the thread that writes records."""

WARM_UP_CALLS = 1000


def writer_seconds() -> float:
    """Return the processor time of the thread that writes records. Raises RuntimeError if it does not run."""
    for thread in threading.enumerate():
        if thread.name == WRITER and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    raise RuntimeError("no thread writes records")


def measure(folder: Path, calls: int) -> dict[str, float]:
    """Run calls; return the figures of the line."""
    servers = folder / "servers"
    servers.mkdir()
    for definition in list_definitions():
        shutil.copy(definition, servers)
    app = create_app(Settings(data=folder / "data", servers=servers, isolation="inline"))
    client = app.test_client()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
    headers = {**COMMON, "Host": "localhost", "MCP-Protocol-Version": SESSION_REVISION}

    def run(number: int) -> None:
        for _ in range(number):
            answer = client.post("/mcp/bench", json=body, headers=headers)
            assert answer.status_code == 200, answer.text

    run(WARM_UP_CALLS)
    writer, process = writer_seconds(), time.process_time()
    run(calls)
    writer, process = writer_seconds() - writer, time.process_time() - process
    return {
        "calls": calls,
        "writer_us": round(writer / calls * 1e6, 2),
        "process_us": round(process / calls * 1e6, 1),
        "writer_share": round(writer / process, 3),
    }


def main() -> int:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    with tempfile.TemporaryDirectory() as name:
        sys.stdout.write(json.dumps(measure(Path(name), parser.parse_args().calls)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
