"""Scripts: the cost of their calls, how they share the processor, and what they save in a task of twenty calls.

    .venv/bin/python -m benchmarks.scripts            calls, the first script, good scripts beside endless ones
    .venv/bin/python -m benchmarks.scripts --task     a task of twenty calls at three servers of PyPI, with and without

Prints one line of JSON. `..._us` are microseconds of processor time of the hub and its processes, for each call;
`..._ms` are milliseconds of a clock. `context_bytes` are the bytes of lists and results that a model reads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.contenders import RunningServer, list_definitions, run_hub_with
from benchmarks.processor_time import processor_seconds, wait_until_idle
from tests.waiting import until

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

COMMITS = 6
TABLE = "CREATE TABLE IF NOT EXISTS commits (number INTEGER, moment TEXT)"
QUESTION = "SELECT count(*) AS commits, max(number) AS longest FROM commits"
TASK_SCRIPT = f"""
import re
import work

log = await work.git_log(repo_path=repo, max_count={COMMITS})
await work.create_table(query="{TABLE}")
for number, one in enumerate(re.findall("Commit: '?([0-9a-f]{{40}})", log)):
    shown = await work.git_show(repo_path=repo, revision=one)
    await work.convert_time(source_timezone="UTC", time=f"0{{number}}:00", target_timezone="Asia/Tokyo")
    if number < {COMMITS - 1}:
        await work.write_query(query=f"INSERT INTO commits VALUES ({{len(shown)}}, '0{{number}}:00')")
await work.read_query(query="{QUESTION}")
"""


class Caller:
    """Calls the tools of a hub, and counts its requests and the bytes that a model would read."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._client = httpx2.Client(timeout=120)
        self.turns = 0
        self.context_bytes = 0

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

    def list(self, server: str) -> None:
        """Read the list of a server, as a client does once."""
        self.context_bytes += len(json.dumps(self.send(server, "tools/list", {})["tools"]))

    def call(self, server: str, tool: str, **arguments: Any) -> str:
        """Return the text of the result of a tool."""
        result = self.send(server, "tools/call", {"name": tool, "arguments": arguments})
        text = "".join(str(one.get("text", "")) for one in result["content"])
        self.turns += 1
        self.context_bytes += len(text.encode())
        return text

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


def measure_shares(caller: Caller, base: str, count: int) -> dict[str, float]:
    """Measure good scripts alone, and beside ENDLESS that work without an end (each until its limit, then again)."""
    alone = [seconds_of(caller, GOOD) for _ in range(count)]
    over = threading.Event()

    def work_without_end() -> None:
        other = Caller(base)
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
        f"{name}_{part}_ms": round(1000 * sorted(times)[int(len(times) * share)], 1)
        for name, times in (("alone", alone), ("beside_endless", beside))
        for part, share in (("median", 0.5), ("p99", 0.99))
    }


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
        return shown | measure_calls(hub, caller, rounds) | measure_shares(caller, base, count)


def make_repository(folder: Path) -> Path:
    """Make a repository with COMMITS commits."""
    repository = folder / "repository"
    repository.mkdir()
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    for number in range(COMMITS):
        (repository / "text.md").write_text(f"line {number}\n" * 40 * (number + 1))
        subprocess.run(["git", "add", "."], cwd=repository, check=True)
        subprocess.run(["git", "commit", "-q", "-m", f"Change {number}"], cwd=repository, check=True)
    return repository


def run_task_plainly(caller: Caller, repository: str) -> str:
    """Do the task as a model without scripts: one call in each turn."""
    log = caller.call("plain", "git_log", repo_path=repository, max_count=COMMITS)
    caller.call("plain", "create_table", query=TABLE)
    ids = [line.split()[1].strip("'") for line in log.splitlines() if line.startswith("Commit: ")]
    for number, one in enumerate(ids):
        shown = caller.call("plain", "git_show", repo_path=repository, revision=one)
        at = {"source_timezone": "UTC", "time": f"0{number}:00", "target_timezone": "Asia/Tokyo"}
        caller.call("plain", "convert_time", **at)
        if number < COMMITS - 1:
            caller.call("plain", "write_query", query=f"INSERT INTO commits VALUES ({len(shown)}, '0{number}:00')")
    return caller.call("plain", "read_query", query=QUESTION)


def run_task_by_script(caller: Caller, repository: str) -> str:
    """Do the task as a model with scripts: it looks for the tools, and runs one script."""
    caller.call("work", "find_tools", query="git log, show, time zone, sqlite query, table", limit=12)
    return caller.script("work", TASK_SCRIPT, repo=repository)


def has_all_tools(caller: Caller) -> bool:
    """Whether the three servers have listed their tools."""
    names = {one["name"] for one in caller.send("plain", "tools/list", {})["tools"]}
    return {"git_log", "convert_time", "write_query"} <= names


def measure_task() -> dict[str, Any]:
    """Do the task of twenty calls with and without a script, at three servers of PyPI."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        repository, data = str(make_repository(folder)), folder / "data.sqlite"
        sqlite = f"mcp+uvx://mcp-server-sqlite?launch.arg=--db-path&launch.arg={data}"
        chosen = {"kind": "toolset", "include": ["git.*", "time.*", "sqlite.*"]}
        servers: dict[str, dict[str, Any]] = {
            "git": {"address": "mcp+uvx://mcp-server-git", "confine": "off"},
            "time": {"address": "mcp+uvx://mcp-server-time", "confine": "off"},
            "sqlite": {"address": sqlite, "confine": "off"},
            "plain": chosen,
            "work": {**chosen, "listing": {"scripts": "only"}},
        }
        files = [folder / f"{name}.json" for name in servers]
        for file, fields in zip(files, servers.values(), strict=True):
            file.write_text(json.dumps(fields))
        hub = stack.enter_context(run_hub_with([*list_definitions(), *files], "inline", folder, ()))
        found: dict[str, Any] = {}
        for name, server, run in (("plain", "plain", run_task_plainly), ("script", "work", run_task_by_script)):
            caller = Caller(hub.url.removesuffix("bench"))
            stack.callback(caller.close)
            until(partial(has_all_tools, caller), "the tools of all three servers")
            data.unlink(missing_ok=True)
            run(caller, repository)  # so that processes and stubs are there
            data.unlink(missing_ok=True)
            caller.turns = caller.context_bytes = 0
            wait_until_idle(hub.pid)
            before, begun = processor_seconds(hub.pid), time.perf_counter()
            caller.list(server)
            found[f"{name}_answer"] = run(caller, repository)
            found[f"{name}_ms"] = round((time.perf_counter() - begun) * 1000)
            found[f"{name}_processor_ms"] = round((processor_seconds(hub.pid) - before) * 1000)
            found[f"{name}_turns"], found[f"{name}_context_bytes"] = caller.turns, caller.context_bytes
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scripts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--task", action="store_true", help="the task of twenty calls at three servers of PyPI")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each way to call (default: 10)")
    parser.add_argument("--count", type=int, default=100, help="good scripts alone, and beside endless ones (100)")
    given = parser.parse_args(arguments)
    found = measure_task() if given.task else measure(given.rounds, given.count)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
