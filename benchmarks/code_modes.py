"""Scripts beside plain calls, and beside FastMCP's code mode: three tasks at three real servers.

    .venv/bin/python -m benchmarks.code_modes

A scripted model does each task in three ways: one tool call in each turn, one script at this hub, one script at
FastMCP. A turn is one answer of the model; what enters its context is the list of tools, once, and the text of each
result, also of what it reads before it writes a script. Processor time is that of the whole tree of processes of a
server, with the three programs behind it. Then it sends scripts that a server has to refuse, and restarts each server
while a script waits for a person.

It needs PyPI and npm, from which the three programs and the newest FastMCP come, and prints two tables.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks.code_mode_restarts import restart_fastmcp, restart_patchbay
from benchmarks.code_mode_tasks import OWNERS, TASKS, ZONES, Task, make_repository, script_for_fastmcp
from benchmarks.contenders import ENDED_BY_SIGTERM, RunningServer, run_hub_with
from benchmarks.gateways import NPX, UVX
from benchmarks.processes import find_descendants
from benchmarks.processor_time import processor_seconds, wait_until_idle
from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from tests.checkout import ROOT
from tests.interaction.programs import free_port, running

FASTMCP = "fastmcp[code-mode]==4.2.3"
START_SECONDS = 180.0
PLAIN, SCRIPTS, PEER = "plain calls", "Patchbay scripts", "FastMCP code mode"

RESTART = "a restart while it waits for a person"

REFUSED = {
    "a wrong argument, after a call that writes": "await bench.write_file(path=repository + '/written', content='x')\n"
    "await bench.git_log(repo_path=repository, max_count='six')",
    "an endless loop": "while True:\n    pass",
    "a memory bomb": "kept = []\nwhile True:\n    kept.append('a' * 1000000)",
    "a tool that is not there": "await bench.git_push(repo_path=repository)",
}


@dataclass
class Cost:
    """What one task cost a model and its server; `least` are the turns with independent calls in one turn."""

    turns: int = 0
    least: int = 0
    context: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    value: Any = None


@dataclass
class Model:
    """A scripted model: asks one server, and counts what enters its context."""

    server: RunningServer
    connection: Connection
    cost: Cost = field(default_factory=Cost)

    def begin(self) -> None:
        """Begin a task: the list of tools enters the context."""
        self.cost = Cost(context=sum(len(json.dumps(one)) for one in self.connection.list_tools()))
        wait_until_idle(self.server.pid)
        self.cost.seconds, self.cost.processor = time.monotonic(), processor_seconds(self.server.pid)

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Make a call in a turn of its own; return the text of its result. Raises RuntimeError for a failure."""
        result = self.connection.call_tool(tool, dict(arguments), timeout=120)
        text = "".join(str(one.get("text", "")) for one in result["content"])
        if result.get("isError"):
            raise RuntimeError(text)
        self.cost.turns += 1
        self.cost.context += len(text.encode())
        return text

    def end(self) -> Cost:
        """End a task; return its cost. The last turn is the answer to the person."""
        self.cost.seconds = time.monotonic() - self.cost.seconds
        self.cost.processor = processor_seconds(self.server.pid) - self.cost.processor
        self.cost.turns += 1
        return self.cost


def do_plain(model: Model, task: Task, repository: Path) -> Cost:
    """Do a task with one tool call in each turn."""
    model.begin()
    calls = task.calls(repository)
    name, arguments = next(calls)
    try:
        while True:
            name, arguments = calls.send(model.ask(name, arguments))
    except StopIteration:
        cost = model.end()
        cost.least = task.levels + 1
        return cost


def do_script(model: Model, task: Task, repository: Path) -> Cost:
    """Do a task with one search and one script at this hub."""
    model.begin()
    model.ask("find_tools", {"query": task.words, "limit": 6})
    arguments = {"code": task.script, "inputs": {"repository": str(repository), "zones": list(ZONES)}}
    value = model.ask("run_script", arguments)
    cost = model.end()
    cost.value = json.loads(value)
    return cost


def do_fastmcp(model: Model, task: Task, repository: Path) -> Cost:
    """Do a task with one search, the schemas of its tools, and one script at FastMCP."""
    model.begin()
    found = model.ask("search", {"query": task.words, "limit": 6})
    tools = [f"{owner}_{name}" for owner, names in OWNERS.items() for name in names if f"bench.{name}(" in task.script]
    missing = [one for one in tools if one not in found]
    if missing:
        model.ask("search", {"query": " ".join(missing).replace("_", " "), "limit": 6})
    model.ask("get_schema", {"tools": tools})
    code = script_for_fastmcp(task.script, {"repository": str(repository), "zones": list(ZONES)})
    value = json.loads(model.ask("execute", {"code": code}))
    cost = model.end()
    cost.value = value["result"] if isinstance(value, dict) and "result" in value else value
    return cost


def refuse(model: Model, code: str, repository: Path, is_fastmcp: bool) -> str:
    """Send a script that has to be refused; return what came of it, in words."""
    begun, before = time.monotonic(), _memory(model.server.pid)
    if is_fastmcp:
        tool = "execute"
        arguments: dict[str, Any] = {"code": script_for_fastmcp(f"{code}\nNone", {"repository": str(repository)})}
    else:
        tool = "run_script"
        arguments = {"code": f"import bench\n{code}", "inputs": {"repository": str(repository)}}
    peak = [before]
    with _watched_memory(model.server.pid, peak):
        try:
            answer = f"done: {model.ask(tool, arguments)}"
        except (RuntimeError, McpFailure) as problem:
            answer = f"refused: {problem}"
    took = time.monotonic() - begun
    written = repository / "written"
    effect = "; the file was written" if written.exists() else ""
    written.unlink(missing_ok=True)
    line = " ".join(answer.split())[:160]
    return f"{line} ({took:.1f} s, {(max(peak) - before) / 1024:.0f} MiB more{effect})"


@contextmanager
def _watched_memory(pid: int, peak: list[int]) -> Iterator[None]:
    """Append the memory of a tree of processes in KiB, from time to time."""
    over = Event()

    def watch() -> None:
        while not over.wait(0.05):
            peak.append(_memory(pid))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _memory(pid: int) -> int:
    """Return the resident memory of a tree of processes in KiB."""
    total = 0
    for one in {pid} | find_descendants(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return total


def programs(repository: Path) -> dict[str, dict[str, Any]]:
    """Return the three programs, as clients configure them."""
    npx, uvx = list(NPX), [str(UVX)]
    return {
        "git": {"command": uvx[0], "args": ["mcp-server-git", "--repository", str(repository)]},
        "time": {"command": uvx[0], "args": ["mcp-server-time", "--local-timezone", "UTC"]},
        "filesystem": {
            "command": npx[0],
            "args": [*npx[1:], "@modelcontextprotocol/server-filesystem", str(repository)],
        },
    }


def fetching() -> dict[str, str]:
    """Return the variables by which uv and npx find their caches and the certificates of this machine."""
    names = ("HOME", "PATH", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def run_patchbay(folder: Path, repository: Path) -> Iterator[tuple[Model, Model]]:
    """Run this hub with the three programs; give a model at the plain toolset, and one at the toolset of scripts."""
    files = []
    included = [f"{owner}.{name}" for owner, names in OWNERS.items() for name in names]
    toolset = {"kind": "toolset", "include": included}
    own = {name: {**one, "environment": fetching(), "confine": "off"} for name, one in programs(repository).items()}
    for name, fields in {**own, "plain": toolset, "bench": {**toolset, "listing": {"scripts": "only"}}}.items():
        file = folder / f"{name}.json"
        file.write_text(json.dumps(fields))
        files.append(file)
    with run_hub_with(files, "inline", folder, ()) as hub, ExitStack() as stack:
        models = []
        for name in ("plain", "bench"):
            url = hub.url.replace("/bench", f"/{name}")
            connection = stack.enter_context(Connection.open(Http(url), timeout=START_SECONDS))
            _wait_for_tools(connection, "git_log" if name == "plain" else "run_script")
            models.append(Model(RunningServer(url, hub.pid), connection))
        yield models[0], models[1]


@contextmanager
def run_fastmcp(folder: Path, repository: Path) -> Iterator[Model]:
    """Run FastMCP with its code mode over the three programs."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    program = ROOT / "benchmarks/peers/fastmcp_code_mode.py"
    command = [str(UVX), "--from", FASTMCP, "python", str(program), str(port)]
    own = {name: {**one, "env": fetching()} for name, one in programs(repository).items()}
    command.append(json.dumps({"mcpServers": own}))
    statuses = range(200, 501)
    with (
        running(command, url, folder, statuses, ENDED_BY_SIGTERM, dict(os.environ)) as process,
        Connection.open(Http(url), timeout=START_SECONDS) as connection,
    ):
        _wait_for_tools(connection, "execute")
        yield Model(RunningServer(url, process.pid), connection)


def _wait_for_tools(connection: Connection, name: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not any(one["name"] == name for one in connection.list_tools()):
        if time.monotonic() > end:
            raise RuntimeError(f"the tool {name} is not listed after {START_SECONDS:g} s")
        time.sleep(0.5)


def measure(folder: Path) -> tuple[dict[str, dict[str, Cost]], dict[str, dict[str, str]]]:
    """Run both servers, one after the other; return the costs of each task and the refusals, by way."""
    repository = folder / "repository"
    make_repository(repository)
    costs: dict[str, dict[str, Cost]] = {task.name: {} for task in TASKS}
    refusals: dict[str, dict[str, str]] = {name: {} for name in REFUSED}
    with run_patchbay(folder, repository) as (plain, scripted):
        do_plain(plain, TASKS[1], repository)  # what starts late has started
        do_script(scripted, TASKS[1], repository)
        for task in TASKS:
            costs[task.name][PLAIN] = do_plain(plain, task, repository)
            costs[task.name][SCRIPTS] = do_script(scripted, task, repository)
        for name, code in REFUSED.items():
            refusals[name][SCRIPTS] = refuse(scripted, code, repository, is_fastmcp=False)
    with run_fastmcp(folder, repository) as model:
        do_fastmcp(model, TASKS[1], repository)
        for task in TASKS:
            costs[task.name][PEER] = do_fastmcp(model, task, repository)
        for name, code in REFUSED.items():
            refusals[name][PEER] = refuse(model, code, repository, is_fastmcp=True)
    return costs, refusals


def format_tables(costs: Mapping[str, Mapping[str, Cost]], refusals: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the lines of the two tables as Markdown, and what the scripts of a task do not agree on."""
    lines = ["| Task | Way | Turns | Bytes into its context | Seconds | Processor time |", "| --- " * 6 + "|"]
    for task, ways in costs.items():
        for way, one in ways.items():
            turns = f"{one.turns}, or {one.least}" if one.least else f"{one.turns}"
            figures = f"{turns} | {one.context:,} | {one.seconds:.2f} | {one.processor * 1000:.0f} ms"
            lines.append(f"| {task} | {way} | {figures} |")
    lines += ["", "| Script | Patchbay | FastMCP |", "| --- | --- | --- |"]
    lines += [f"| {name} | {ways[SCRIPTS]} | {ways[PEER]} |" for name, ways in refusals.items()]
    for task, ways in costs.items():
        if ways[SCRIPTS].value != ways[PEER].value:
            lines.append(f"{task}: the values differ: {ways[SCRIPTS].value} and {ways[PEER].value}")
    return lines


def main() -> int:
    """Run from the command line; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        costs, refusals = measure(Path(folder))
        here, there = restart_patchbay(Path(folder) / "own"), restart_fastmcp(Path(folder) / "peer", FASTMCP)
        refusals[RESTART] = {SCRIPTS: str(here), PEER: str(there)}
        lines = format_tables(costs, refusals)
    lines += ["", f"Load of the machine: {os.getloadavg()[0]:.1f}, with {os.cpu_count()} processors"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
