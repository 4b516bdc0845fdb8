"""Scripts: the cost of their calls beside plain ones, and how they share the processor with endless ones.

    .venv/bin/python -m benchmarks.scripts --rounds 10 --count 100

Prints one line of JSON. `..._us` are microseconds of processor time of the hub and its processes, for each call;
`..._ms` are milliseconds of a clock. The endless scripts begin again at their limit; good ones beside them are those of
the same caller, and on another hub those of a second caller. `load` is the load of the machine at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.contenders import RunningServer, list_definitions, run_hub_with
from benchmarks.processor_time import processor_seconds, wait_until_idle

CALLS = 200
"""Calls of one script, and of one turn of plain calls."""

ENDLESS = 20
"""Scripts that work without an end, beside which good ones are measured."""

SCRIPTED = {"kind": "toolset", "include": ["bench.echo"], "listing": {"scripts": "also"}}
MANY = f"import scripted\nfor number in range({CALLS}):\n    await scripted.echo(message='hello')"
GATHERED = (
    f"import asyncio, scripted\nlen(await asyncio.gather(*[scripted.echo(message='hello') for _ in range({CALLS})]))"
)
NONE = "import scripted\n1"
GOOD = "import scripted\nlen(await scripted.echo(message='hello'))"


class Caller:
    """Calls the tools of a hub on one connection, with its key if it has one."""

    def __init__(self, base: str, key: str = "") -> None:
        self._base = base
        self._client = httpx2.Client(timeout=120, headers={"Authorization": f"Bearer {key}"} if key else None)

    def send(self, server: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises RuntimeError for an error."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._client.post(f"{self._base}{server}", json=body, headers=headers)
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        found = json.loads(lines[-1] if lines else answer.text)
        if "result" not in found or found["result"].get("isError"):
            raise RuntimeError(f"{server} answered {found}"[:600])
        return dict(found["result"])

    def call(self, server: str, tool: str, **arguments: Any) -> str:
        """Return the text of the result of a tool."""
        result = self.send(server, "tools/call", {"name": tool, "arguments": arguments})
        return "".join(str(one.get("text", "")) for one in result["content"])

    def script(self, server: str, code: str, **inputs: Any) -> str:
        """Return the text of the result of a script."""
        return self.call(server, "run_script", code=code, inputs=inputs)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def seconds_of(caller: Caller, code: str) -> float:
    """Return how long a script takes."""
    begun = time.perf_counter()
    caller.script("scripted", code)
    return time.perf_counter() - begun


def measure_calls(hub: RunningServer, caller: Caller, rounds: int) -> dict[str, float]:
    """Compare the processor time of a call in a script with that of a plain one; turns alternate."""
    figures: dict[str, list[float]] = {"plain": [], "in_script": [], "gathered": []}
    for _ in range(rounds):
        for name, code in (("plain", ""), ("in_script", MANY), ("gathered", GATHERED)):
            wait_until_idle(hub.pid)
            before = processor_seconds(hub.pid)
            if code:
                caller.script("scripted", code)
            else:
                for _ in range(CALLS):
                    caller.call("scripted", "echo", message="hello")
            figures[name].append((processor_seconds(hub.pid) - before) / CALLS * 1e6)
    return {f"{name}_us": round(statistics.median(times), 1) for name, times in figures.items()}


def measure_shares(caller: Caller, base: str, count: int, key: str = "", prefix: str = "") -> dict[str, float]:
    """Measure good scripts alone, and beside ENDLESS that work without an end (each until its limit, then again).

    `key` is that of the caller of the endless ones; `prefix` begins the names of the figures.
    """
    alone = [seconds_of(caller, GOOD) for _ in range(count)]
    over = threading.Event()

    def work_without_end() -> None:
        other = Caller(base, key)
        while not over.is_set():
            try:
                other.script("scripted", "while True:\n    pass")
            except RuntimeError:
                continue
        other.close()

    threads = [threading.Thread(target=work_without_end, daemon=True) for _ in range(ENDLESS)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    beside = [seconds_of(caller, GOOD) for _ in range(count)]
    over.set()
    for thread in threads:
        thread.join()
    return {
        f"{prefix}{name}_{part}_ms": round(1000 * sorted(times)[int(len(times) * share)], 1)
        for name, times in (("alone", alone), ("beside_endless", beside))
        for part, share in (("median", 0.5), ("p99", 0.99))
    }


def measure_two_callers(count: int) -> dict[str, float]:
    """Run a shared hub: the endless scripts are those of one caller, the good ones those of another."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "scripted.json"
        file.write_text(json.dumps(SCRIPTED))
        keys = [_make_key(folder / "hub" / "data", name) for name in ("ann", "ben")]
        hub = stack.enter_context(
            run_hub_with([*list_definitions(), file], "inline", folder, (), ("--access", "shared"))
        )
        base = hub.url.removesuffix("bench")
        caller = Caller(base, keys[1])
        stack.callback(caller.close)
        seconds_of(caller, GOOD)
        return measure_shares(caller, base, count, keys[0], "two_callers_")


def _make_key(data: Path, name: str) -> str:
    """Return a new key of a hub that does not run yet."""
    command = [sys.executable, "-m", "patchbay", "key", "new", name, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measure(rounds: int, count: int) -> dict[str, float]:
    """Run a hub, and measure what scripts cost."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "scripted.json"
        file.write_text(json.dumps(SCRIPTED))
        hub = stack.enter_context(run_hub_with([*list_definitions(), file], "inline", folder, ()))
        base = hub.url.removesuffix("bench")
        caller = Caller(base)
        stack.callback(caller.close)
        caller.call("scripted", "echo", message="hello")
        shown = {"first_script_ms": round(seconds_of(caller, NONE) * 1000, 1)}
        empty = [seconds_of(caller, NONE) for _ in range(20)]
        shown["empty_script_ms"] = round(statistics.median(empty) * 1000, 1)
        shown |= measure_calls(hub, caller, rounds) | measure_shares(caller, base, count)
    return shown | measure_two_callers(count) | {"load": round(os.getloadavg()[0], 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scripts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="turns of each way to call (default: 10)")
    parser.add_argument("--count", type=int, default=100, help="good scripts alone, and beside endless ones (100)")
    given = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(measure(given.rounds, given.count)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
