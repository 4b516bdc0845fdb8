"""Forty packages of PyPI and npm, each confined as every new mount is: lists and calls equal to those without the hub.

Each one is used directly, by the official SDK and with all rights of this user, and then through a hub with the default
settings. One that is refused something gets the line of its configuration that allows it, and is tried again: the table
says which line that is, and whether the hub named it. Beside them run a browser, a program in Go, and one that forks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Stdio
from tests.acceptance.packages import LISTED, OTHERS, PACKAGES, Listed, Package
from tests.acceptance.together import START_SECONDS, with_own_programs
from tests.interaction.programs import Hub, running_hub
from tests.ordinary_user import around_ordinary_user, give_to_ordinary_user

FOLDERS = Path("/var/tmp")
"""Where the files of a run are. A confined program has a /tmp of its own, so this stands for folders of a user."""

LINE = re.compile(r'"(reads|writes)": (\["(?:[^"\\]|\\.)*"\])')
MAX_LINES = 2
"""Lines of its configuration that one package may need."""

FILES, DIRECT, CONFINED = "files-of-all", "direct", "confined"
"""The folder of a run with the files that packages work on, and the copies for each use of one package, so that no use
finds what another one has made.
"""

DOWN_SECONDS = 20.0
"""Time for a mount that is down to come up: the hub tries again and again."""

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

_NEVER = threading.Event()


@dataclass(frozen=True, slots=True)
class Used:
    """What one use of a server has shown: its tools by name, and the text of the call."""

    tools: Mapping[str, Any]
    said: str = ""
    is_error: bool = False


@dataclass
class Trial:
    """One package: its address, its call, and what was found."""

    package: Package | Listed
    folder: Path
    browser: str
    needs: dict[str, Any] = field(default_factory=dict)
    named: bool = True
    problem: str = ""
    tools: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of its mount."""
        return self.package.name.replace(".", "-")

    @property
    def tool(self) -> str:
        """The tool that is called; empty for a package that is listed only."""
        return self.package.tool if isinstance(self.package, Package) else ""

    def fill(self, text: str, folder: Path, is_quoted: bool = False) -> str:
        """Return a text of the package with the folders of one of its two uses in it."""
        places = {"{folder}": folder / "files", "{repository}": folder / "repository", "{chromium}": self.browser}
        for mark, place in places.items():
            text = text.replace(mark, quote(str(place)) if is_quoted else str(place))
        return text

    def make_folder(self, use: str) -> Path:
        """Return a new folder for a use, with the files and the repository of the run."""
        folder = self.folder / self.name / use
        shutil.copytree(self.folder / FILES, folder, symlinks=True)
        return folder

    async def use(self, server: Any, folder: Path) -> Used:
        """List all tools of a server, and call one with the files in `folder`."""
        tools: dict[str, Any] = {}
        async with mcp.Client(server, mode="legacy", read_timeout_seconds=START_SECONDS) as client:
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools |= {one.name: one.model_dump(mode="json", exclude_none=True) for one in page.tools}
                cursor = page.next_cursor
                if cursor is None:
                    break
            tools = {name: tool for name, tool in tools.items() if name not in self.package.varying}
            if not self.tool:
                return Used(tools)
            given = self.package.arguments if isinstance(self.package, Package) else {}
            arguments = {key: self.fill(one, folder) if isinstance(one, str) else one for key, one in given.items()}
            result = await client.call_tool(self.tool, arguments)
        said = "\n".join(getattr(part, "text", "") for part in result.content) or str(result.structured_content)
        return Used(tools, said, bool(result.is_error))

    def use_directly(self) -> Used:
        """Use the package without the hub, with all rights of this user. This also fetches it."""
        folder = self.make_folder(DIRECT)
        address = self.fill(self.package.address, folder, True)
        target = parse_address(address).target
        assert isinstance(target, Stdio), address
        own = Path(mkdtemp(dir=folder))
        server = StdioServerParameters(
            command=target.command, args=list(target.args), env={**with_own_programs(), **target.env}, cwd=own
        )
        with Path(os.devnull).open("w") as nowhere:
            transport = stdio_client(server, errlog=nowhere)
            return asyncio.run(asyncio.wait_for(self.use(transport, folder), START_SECONDS))

    def use_confined(self, hub: Hub) -> Used:
        """Mount the package with the lines that it needs, and use it through the hub."""
        folder = self.folder / self.name / CONFINED
        address = self.fill(self.package.address, folder, True)
        fields = {"kind": "upstream", "address": address, **self.needs}
        file = hub.servers / f"{self.name}.json"
        file.with_suffix(".new").write_text(json.dumps(fields))
        file.with_suffix(".new").rename(file)
        said = wait_until_served(hub, self.name, fields)
        if said:
            return Used({}, said, True)
        return asyncio.run(asyncio.wait_for(self.use(hub.endpoint(self.name), folder), START_SECONDS))

    def run(self, hub: Hub, as_user: bool) -> None:
        """Use the package in both ways, and compare. Each line that the hub names is added once."""
        begun = time.monotonic()
        try:
            direct = self.use_directly()
            self.tools = len(direct.tools)
            if direct.is_error or self._says() not in direct.said:
                self.problem = f"directly: {direct.said[:150]}"
                return
            folder = self.make_folder(CONFINED)
            if as_user:
                give_to_ordinary_user(folder)
            used = self.use_confined(hub)
            for _ in range(MAX_LINES):
                if not used.is_error or not self._add_line(used.said):
                    break
                used = self.use_confined(hub)
            self.problem = self._compare(direct, used)
        except Exception as problem:
            self.problem = describe_problem(problem)[:300]
        finally:
            (hub.servers / f"{self.name}.json").unlink(missing_ok=True)
            self.seconds = time.monotonic() - begun

    def _says(self) -> str:
        return self.package.says if isinstance(self.package, Package) else ""

    def _add_line(self, said: str) -> bool:
        """Add the line that a failure names, or one that an operator has to know; False if there is none."""
        found = LINE.search(said)
        if found:
            have = self.needs.setdefault(found[1], [])
            places = [one for one in json.loads(found[2]) if one not in have]
            have += places
            return bool(places)
        folder = self.folder / self.name / CONFINED
        more = {
            name: [self.fill(one, folder) for one in value] if isinstance(value, list) else value
            for name, value in self.package.permissions.items()
            if name not in self.needs
        }
        self.needs |= more
        self.named = self.named and not more
        return bool(more)

    def _without_folders(self, text: str) -> str:
        for use in (DIRECT, CONFINED):
            text = text.replace(str(self.folder / self.name / use), "FOLDER")
        return text

    def _compare(self, direct: Used, used: Used) -> str:
        """Return how the confined use differs from the direct one; empty for equal ones."""
        if used.is_error:
            return f"an error: {used.said[:300]}"
        if used.tools.keys() != direct.tools.keys():
            return f"other tools: {', '.join(sorted(used.tools.keys() ^ direct.tools.keys())[:5])}"
        one, other = (
            {name: self._without_folders(json.dumps(tool, sort_keys=True)) for name, tool in tools.items()}
            for tools in (direct.tools, used.tools)
        )
        differing = [name for name, tool in one.items() if other[name] != tool]
        if differing:
            return f"tools with other descriptions: {', '.join(differing[:5])}"
        if self._says() not in used.said:
            return f"another result: {used.said[:150]}"
        is_repeatable = not isinstance(self.package, Package) or self.package.is_repeatable
        said, wanted = self._without_folders(used.said), self._without_folders(direct.said)
        return f"another result: {used.said[:150]}" if is_repeatable and said != wanted else ""


def describe_problem(problem: BaseException) -> str:
    """Return an exception as one line; of a group the first one inside."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"{type(problem).__name__}: {problem}"


def wait_until_served(hub: Hub, name: str, fields: Mapping[str, Any]) -> str:
    """Wait until a mount with these fields is up; return an empty text, or why it is not."""
    end, said, is_down = time.monotonic() + START_SECONDS, "it is not served", False
    while time.monotonic() < end:
        server = read_server(hub, name)
        upstream = server.get("upstream") or {}
        if {key: server.get("config", {}).get(key) for key in fields} == dict(fields):
            if upstream.get("state") == "up":
                return ""
            said = str(upstream.get("sentence", said))
            if upstream.get("state") == "down" and not is_down:
                is_down, end = True, min(end, time.monotonic() + DOWN_SECONDS)
            if is_down and LINE.search(said):
                return said
        _NEVER.wait(0.3)
    return said


def read_server(hub: Hub, name: str) -> Mapping[str, Any]:
    """Return what the page of a server has as JSON; empty for a server that the hub does not know yet."""
    try:
        with urlopen(Request(f"{hub.url}/servers/{name}", headers={"Accept": "application/json"}), timeout=60) as page:
            found: Mapping[str, Any] = json.load(page).get("server", {})
            return found
    except HTTPError:
        return {}


def make_trials(folder: Path, names: Sequence[str]) -> list[Trial]:
    """Return the packages that were named, or all, with the folders of this run."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), "")
    packages: list[Package | Listed] = [*PACKAGES, *LISTED, *OTHERS]
    return [Trial(package, folder, browser) for package in packages if not names or package.name in names]


@contextmanager
def confining_hub(folder: Path, as_user: bool) -> Iterator[Hub]:
    """Run a hub with the default settings: of this user, or of an ordinary user whose home folder is in `folder`."""
    environment = with_own_programs()
    if not as_user:
        with running_hub(folder / "hub", (), environment=environment) as hub:
            yield hub
        return
    (folder / "home").mkdir()
    give_to_ordinary_user(folder / "home")
    around, more = around_ordinary_user(folder)
    environment |= {"HOME": str(folder / "home"), "XDG_CACHE_HOME": "", **more}
    own = ("--data", str(folder / "data"))
    with running_hub(folder / "hub", (), prefix=around, options=own, environment=environment) as hub:
        yield hub


def run_confined(folder: Path, names: Sequence[str], at_once: int, as_user: bool) -> bool:
    """Use the packages in both ways, print the table; return whether all went well.

    The folder FILES in `folder` has the files and the repository that packages work on.
    """
    logging.disable()  # the official SDK writes a trace for each line of a program that is no message
    if as_user:
        give_to_ordinary_user(folder)
    trials = make_trials(folder, names)
    width = max(len(one.name) for one in trials)
    with confining_hub(folder, as_user) as hub, ThreadPoolExecutor(at_once) as executor:

        def run(one: Trial) -> None:
            one.run(hub, as_user)
            line = f"; needs {json.dumps(one.needs)}" if one.needs else ""
            line += ", which its failure named" if one.needs and one.named else ""
            shown = (
                f"{one.name:<{width}} | {one.tools:>3} tools | {one.seconds:5.1f} s | {one.problem or 'equal'}{line}\n"
            )
            sys.stdout.write(shown.replace(str(folder), "FOLDER"))
            sys.stdout.flush()

        list(executor.map(run, trials))
    return report(trials)


def report(trials: Sequence[Trial]) -> bool:
    """Print the totals; return whether all went well."""
    others = {one.name for one in OTHERS}
    packages = [one for one in trials if one.package.name not in others]
    for title, some in (("packages", packages), ("other programs", [one for one in trials if one not in packages])):
        equal = [one for one in some if not one.problem]
        lines = [one for one in equal if one.needs]
        sys.stdout.write(
            f"{len(equal)} of {len(some)} {title} are equal, {len(lines)} of them with a line"
            f"{': ' if lines else ''}{', '.join(one.name for one in lines)}\n"
        )
    return not any(one.problem for one in trials)
