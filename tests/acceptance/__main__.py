"""Inspect, call, mount, and call through the hub: packages of PyPI and npm. `scripts/acceptance --help`.

`--together` mounts forty packages in one hub at once instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mcp import Client

from tests.acceptance.claude import claude_uses_the_hub
from tests.acceptance.clients import clients_read_the_entry
from tests.acceptance.confined import FILES, FOLDERS, run_confined
from tests.acceptance.fresh import first_calls_are_in_time
from tests.acceptance.hosts import run_with_hosts
from tests.acceptance.jobs import do_jobs
from tests.acceptance.packages import PACKAGES, Package
from tests.acceptance.together import run_together
from tests.acceptance.toolsets import run_toolsets
from tests.checkout import ROOT
from tests.interaction.programs import Hub, running_hub

STEPS = ("inspect", "call", "mount", "legacy", "modern")
MODES = {"legacy": "legacy", "modern": "2026-07-28"}
COMMAND_SECONDS = 300.0
"""Time of one command; a package may have to be fetched."""

MOUNT_SECONDS = 180.0


class Wrong(Exception):
    """A step that did not work; the text says why."""


class Trial:
    """One package on its way through all steps; `found` says of each what came of it."""

    def __init__(self, package: Package, folder: Path, hub: Hub) -> None:
        self.package, self.hub, self.folder = package, hub, folder
        self.address = self.filled(package.address, quote)
        self.server = package.name.replace(".", "-")
        self.found: dict[str, str] = {}
        self.tools: set[str] = set()

    def filled(self, text: str, quoted: Any = str) -> str:
        """A text with the folders of this run in it."""
        places = {"{folder}": self.folder / "files", "{repository}": self.folder / "repository"}
        for mark, place in places.items():
            text = text.replace(mark, quoted(str(place)))
        return text

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call."""
        return {key: self.filled(one) if isinstance(one, str) else one for key, one in self.package.arguments.items()}

    def run(self) -> None:
        """All steps; one that fails ends the trial."""
        for step in STEPS:
            begun = time.monotonic()
            try:
                said = getattr(self, f"_{step}")() if step not in MODES else asyncio.run(self._through(MODES[step]))
            except Exception as problem:
                lines = str(problem).strip().splitlines() or [type(problem).__name__]
                self.found[step] = f"FAILED: {lines[0][:160]}"
                return
            self.found[step] = f"{said} ({time.monotonic() - begun:.1f} s)"

    def _command(self, *words: str) -> str:
        code = "from patchbay.cli import main; main(prog_name='patchbay')"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATCHBAY_DATA": str(self.folder / "data")}
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        if done.returncode != 0:
            raise Wrong(done.stderr or done.stdout)
        return done.stdout

    def _inspect(self) -> str:
        found = json.loads(self._command("inspect", self.address, "--format", "json"))
        names = {tool["name"] for tool in found["tools"]}
        self.tools = names - self.package.varying
        if not self.tools:
            raise Wrong("it has no tools")
        return f"{len(names)} tools, {found['protocolVersion']}"

    def _call(self) -> str:
        said = self._command("call", self.address, self.package.tool, "--args", json.dumps(self.arguments))
        self._check(said)
        return "ok"

    def _check(self, said: str) -> None:
        if self.package.says not in said:
            raise Wrong(f"expected {self.package.says!r} in the answer: {said[:100]}")

    def _mount(self) -> str:
        self._command("mount", self.server, self.address, "--servers", str(self.hub.servers))
        end = time.monotonic() + MOUNT_SECONDS
        while time.monotonic() < end:
            try:
                names = asyncio.run(self._listed("legacy"))
                if names == self.tools:
                    return "ok"
            except Exception as problem:  # not there yet: what is wrong is told when the time is over
                last: object = problem
            else:
                last = f"other tools than before: {sorted(names ^ self.tools)[:5]}"
            time.sleep(0.2)
        raise Wrong(f"the hub does not serve it after {MOUNT_SECONDS:g} s: {last}")

    async def _listed(self, mode: str) -> set[str]:
        names: set[str] = set()
        async with Client(self.hub.endpoint(self.server), mode=mode) as client:
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                names |= {tool.name for tool in page.tools}
                cursor = page.next_cursor
                if cursor is None:
                    return names - self.package.varying

    async def _through(self, mode: str) -> str:
        names = await self._listed(mode)
        if names != self.tools:
            raise Wrong(f"through the hub it has other tools: {sorted(names ^ self.tools)[:5]}")
        async with Client(self.hub.endpoint(self.server), mode=mode) as client:
            result = await client.call_tool(self.package.tool, self.arguments)
        if result.is_error:
            raise Wrong(f"an error: {result.content}")
        self._check("".join(getattr(part, "text", "") for part in result.content) or str(result.structured_content))
        return "ok"


def prepared(folder: Path) -> None:
    """The files and the repository that some servers work on."""
    files, repository = folder / "files", folder / "repository"
    files.mkdir()
    repository.mkdir()
    (files / "note.txt").write_text("a note\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=repository, check=True, stdout=subprocess.DEVNULL)


def run_and_report(trial: Trial) -> Trial:
    """Run a trial, and write its line of the table."""
    trial.run()
    width = max(len(one.name) for one in PACKAGES)
    cells = " | ".join(f"{step}: {trial.found.get(step, 'not reached')}" for step in STEPS)
    sys.stdout.write(f"{trial.package.name:<{width}} | {cells}\n")
    sys.stdout.flush()
    return trial


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/acceptance", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these packages [all]")
    parser.add_argument("--at-once", type=int, default=2, help="packages at a time [2]")
    parser.add_argument("--claude", action="store_true", help="the claude program of npm uses the hub's tools, too")
    parser.add_argument("--clients", action="store_true", help="clients of npm read the entry of this hub; no packages")
    parser.add_argument("--fresh", action="store_true", help="time the first call from the wheel and a clone")
    parser.add_argument("--jobs", action="store_true", help="do twelve jobs of a new user's first hour")
    parser.add_argument("--together", action="store_true", help="forty packages in one hub at once, for some minutes")
    parser.add_argument("--confined", action="store_true", help="forty packages, each confined as every new mount is")
    parser.add_argument("--hosts", action="store_true", help="packages of Python, Node and Go with a list of hosts")
    parser.add_argument("--toolsets", action="store_true", help="six tools of twelve servers, by every client and way")
    parser.add_argument(
        "--as-user", action="store_true", help="with --confined and --hosts: root runs the hub of an ordinary user"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long they run together [10]")
    given = parser.parse_args()
    if given.confined:
        with tempfile.TemporaryDirectory(prefix="confined-", dir=FOLDERS) as name:
            (Path(name) / FILES).mkdir()
            prepared(Path(name) / FILES)
            return 0 if run_confined(Path(name), given.names, max(1, given.at_once), given.as_user) else 1
    if given.hosts:
        with tempfile.TemporaryDirectory(prefix="hosts-", dir=FOLDERS) as name:
            Path(name).chmod(0o755)
            return 0 if run_with_hosts(Path(name), given.names, given.as_user) else 1
    if given.together:
        with tempfile.TemporaryDirectory(prefix="together-") as name:
            prepared(Path(name))
            return 0 if run_together(Path(name), given.names, given.minutes, max(1, given.at_once)) else 1
    if given.toolsets:
        with tempfile.TemporaryDirectory(prefix="toolsets-", dir=FOLDERS) as name:
            Path(name).chmod(0o755)
            prepared(Path(name))
            return 0 if run_toolsets(Path(name)) else 1
    if given.jobs:
        with tempfile.TemporaryDirectory(prefix="jobs-") as name:
            return 0 if do_jobs(Path(name)) else 1
    if given.fresh:
        with tempfile.TemporaryDirectory(prefix="fresh-") as name:
            return 0 if first_calls_are_in_time(Path(name)) else 1
    chosen = [one for one in PACKAGES if (not given.names or one.name in given.names) and not given.clients]
    with tempfile.TemporaryDirectory(prefix="acceptance-") as name:
        folder = Path(name)
        prepared(folder)
        claude = "ok"
        with running_hub(folder / "hub", environment=os.environ) as hub:
            trials = [Trial(package, folder, hub) for package in chosen]
            with ThreadPoolExecutor(max(1, given.at_once)) as executor:
                list(executor.map(run_and_report, trials))
            if given.claude:
                claude = claude_uses_the_hub(hub, folder)
                sys.stdout.write(f"claude: {claude}\n")
            clients = clients_read_the_entry(hub, folder) if given.clients else {}
            for client, said in clients.items():
                sys.stdout.write(f"{client}: {said}\n")
    worked = [one for one in trials if not any(text.startswith("FAILED") for text in one.found.values())]
    sys.stdout.write(f"{len(worked)} of {len(trials)} packages worked\n")
    return 0 if len(worked) == len(trials) and {claude, *clients.values()} == {"ok"} else 1


if __name__ == "__main__":
    sys.exit(main())
