"""Forty packages of PyPI and npm, mounted in one hub at once: starts, lists, memory and processes.

The hub reads one file with all of them in the form of MCP clients. Every program is started once; its list equals the
one that the official SDK gets directly; memory and processes stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Stdio
from tests.acceptance.packages import LISTED, PACKAGES, Listed, Package
from tests.interaction.programs import Hub, running_hub

START_SECONDS = 300.0
"""Time for the start of all programs, and for one direct list; a package may have to be fetched."""

SAMPLE_SECONDS = 5.0
MAX_GROWTH = 1.1
"""The memory at the end may be this many times the memory at the beginning."""

_NEVER = threading.Event()


@dataclass
class Mounted:
    """One package: its command, the folder it runs in, what it lists directly, and what is wrong with it."""

    name: str
    target: Stdio
    varying: frozenset[str]
    folder: Path
    direct: set[str] = field(default_factory=set)
    problem: str = ""
    starts: int = 0

    def list_directly(self) -> None:
        """Read the names of its tools without the hub; this also fetches the package."""
        environment = {**with_own_programs(), **self.target.env}
        words = list(self.target.args)
        # Some programs of uv write a lock file into a project that they start in.
        server = StdioServerParameters(command=self.target.command, args=words, env=environment, cwd=self.folder)
        try:
            with Path(os.devnull).open("w") as nowhere:
                transport = stdio_client(server, errlog=nowhere)
                self.direct = asyncio.run(asyncio.wait_for(list_tools(transport), START_SECONDS)) - self.varying
        except BaseExceptionGroup as problem:
            self.problem = f"directly: {problem.exceptions[0]!r:.150}"
        except Exception as problem:
            self.problem = f"directly: {problem!r:.150}"
        sys.stdout.write(f"  {self.name}: {self.problem or f'{len(self.direct)} tools'}\n")
        sys.stdout.flush()


def with_own_programs() -> dict[str, str]:
    """Return the environment in which `uvx` of this Python environment is found too."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


async def list_tools(server: Any) -> set[str]:
    """Return the names of all tools, with the handshake."""
    names: set[str] = set()
    async with mcp.Client(server, mode="legacy", read_timeout_seconds=START_SECONDS) as client:
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                return names


def run_together(folder: Path, names: Sequence[str], minutes: float, at_once: int) -> bool:
    """Run the packages for some minutes, print the table; return whether all went well."""
    logging.disable()  # the official SDK writes a trace for each line of a program that is no message
    chosen = [one for one in make_mounted(folder) if not names or one.name in names]
    sys.stdout.write(f"{len(chosen)} packages, read directly:\n")
    with ThreadPoolExecutor(at_once) as executor:
        list(executor.map(Mounted.list_directly, chosen))
    usable = [one for one in chosen if not one.problem]
    counter = Path(__file__).with_name("counted_start.py")
    entries = {}
    for one in usable:
        words = ["-S", str(counter), str(folder / f"{one.name}.starts"), one.target.command, *one.target.args]
        env, cwd = dict(one.target.env), str(folder)
        entries[one.name] = {"command": sys.executable, "args": words, "env": env, "cwd": cwd}
    (folder / "packages.json").write_text(json.dumps({"mcpServers": entries}))
    with running_hub(folder / "together", [folder / "packages.json"], environment=with_own_programs()) as hub:
        wait_until_up(hub, usable)
        first = measure(hub.pid)
        samples = [first]
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            _NEVER.wait(min(SAMPLE_SECONDS, max(0.0, end - time.monotonic())))
            samples.append(measure(hub.pid))
        for one in usable:
            check(hub, folder, one)
    return report(chosen, samples, minutes)


def make_mounted(folder: Path) -> list[Mounted]:
    """Return all packages with their commands."""
    places = {"{folder}": folder / "files", "{repository}": folder / "repository"}
    found = []
    packages: list[Package | Listed] = [*PACKAGES, *LISTED]
    for package in packages:
        address = package.address
        for mark, place in places.items():
            address = address.replace(mark, quote(str(place)))
        target = parse_address(address).target
        assert isinstance(target, Stdio), address
        found.append(Mounted(package.name.replace(".", "-"), target, package.varying, folder))
    return found


def wait_until_up(hub: Hub, packages: Sequence[Mounted]) -> None:
    """Wait until every mount is up. One that is not is found later, by its list."""
    wanted, end = {one.name for one in packages}, time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with urlopen(Request(f"{hub.url}/servers", headers={"Accept": "application/json"}), timeout=60) as answer:
            servers = json.load(answer)
        if wanted <= {one["name"] for one in servers if one["upstream"] and one["upstream"]["state"] == "up"}:
            return
        _NEVER.wait(0.5)


def check(hub: Hub, folder: Path, one: Mounted) -> None:
    """Compare the list through the hub with the direct one, and count the starts."""
    log = folder / f"{one.name}.starts"
    one.starts = log.read_text().count("start\n") if log.exists() else 0
    try:
        served = asyncio.run(asyncio.wait_for(list_tools(hub.endpoint(one.name)), 60)) - one.varying
    except Exception as problem:
        one.problem = f"through the hub: {problem!r:.150}"
        return
    if served != one.direct:
        one.problem = f"other tools through the hub: {', '.join(sorted(served ^ one.direct)[:5])}"
    elif one.starts != 1:
        one.problem = f"started {one.starts} times"


@dataclass(frozen=True)
class Sample:
    """The resident memory of the hub with its workers, and of all it started, in MiB; the number of processes."""

    hub: float
    all: float
    processes: int


def measure(root: int) -> Sample:
    """Measure a process and all that descend from it. Source: proc(5), `stat` and `statm`."""
    parents, sizes, programs = {}, {}, set()
    for each in Path("/proc").iterdir():
        try:
            pid = int(each.name)
            parents[pid] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            sizes[pid] = int((each / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            if b"patchbay" in (each / "cmdline").read_bytes():
                programs.add(pid)
        except (OSError, ValueError):
            continue
    own = {root}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    there = own & sizes.keys()
    return Sample(sum(sizes[pid] for pid in there & programs), sum(sizes[pid] for pid in there), len(there))


def report(packages: Sequence[Mounted], samples: Sequence[Sample], minutes: float) -> bool:
    """Print the table and the totals; return whether all went well."""
    width = max(len(one.name) for one in packages)
    sys.stdout.write(f"\n{'package':<{width}} | tools | starts | result\n")
    for one in packages:
        sys.stdout.write(f"{one.name:<{width}} | {len(one.direct):>5} | {one.starts:>6} | {one.problem or 'ok'}\n")
    first, last = samples[0], samples[-1]
    most = max(one.processes for one in samples)
    is_flat = last.hub <= first.hub * MAX_GROWTH and last.all <= first.all * MAX_GROWTH
    is_steady = most <= first.processes
    worked = sum(not one.problem for one in packages)
    sys.stdout.write(
        f"{worked} of {len(packages)} packages, {sum(one.starts for one in packages)} starts, {minutes:g} minutes\n"
        f"memory of the hub: {first.hub:.0f} MiB, at the end {last.hub:.0f} MiB; with all programs:"
        f" {first.all:.0f} MiB, at the end {last.all:.0f} MiB: {'flat' if is_flat else 'NOT FLAT'}\n"
        f"processes: {first.processes}, at most {most}, at the end {last.processes}:"
        f" {'steady' if is_steady else 'NOT STEADY'}\n"
    )
    return worked == len(packages) and is_flat and is_steady
