"""Three tasks over a repository, for a model that calls tools one by one, and as scripts for two code modes.

The servers are mcp-server-git, mcp-server-time and @modelcontextprotocol/server-filesystem. The calls of a model
without scripts may depend on results of earlier ones. The scripts make the same calls; that for FastMCP is made of the
other, whose calls `await bench.TOOL(...)` become `await call_tool("SERVER_TOOL", {...})`.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITS = 6
"""Commits of the repository; each adds a file."""

LINES = 120
"""Lines of each file."""

ZONES = ("Asia/Tokyo", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo")

OWNERS = {
    "git": ("git_log", "git_show", "git_status"),
    "filesystem": ("get_file_info", "list_directory", "read_text_file", "write_file"),
    "time": ("convert_time",),
}
"""The servers, and the tools of each that the tasks use."""

Calls = Generator[tuple[str, dict[str, Any]], str, None]
"""Gives the name and the arguments of each call, and gets the text of its result."""


@dataclass(frozen=True)
class Task:
    """One task: the calls of a model without scripts, the words that it searches for with them, and its script.

    `levels` is the least number of turns without scripts: a model may ask for independent calls in one turn.
    """

    name: str
    words: str
    calls: Callable[[Path], Calls]
    levels: int
    script: str


def make_repository(folder: Path) -> None:
    """Make a repository with COMMITS commits."""
    folder.mkdir()
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-C", str(folder))
    subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], check=True)
    for number in range(COMMITS):
        lines = (f"value_{line} = {line}{'  # TODO' if line % 40 == 7 else ''}\n" for line in range(LINES))
        (folder / f"module_{number}.py").write_text("".join(lines))
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", f"Add module {number}"], check=True)


def _review(repository: Path) -> Calls:
    log = yield "git_log", {"repo_path": str(repository), "max_count": COMMITS}
    for sha in find_commits(log):
        shown = yield "git_show", {"repo_path": str(repository), "revision": sha}
        name = re.findall(r"module_[0-9]\.py", shown)[0]
        yield "get_file_info", {"path": str(repository / name)}
    yield "list_directory", {"path": str(repository)}
    for zone in ZONES:
        yield "convert_time", {"source_timezone": "UTC", "time": "09:30", "target_timezone": zone}


def _count(repository: Path) -> Calls:
    listed = yield "list_directory", {"path": str(repository)}
    for name in sorted(set(re.findall(r"module_[0-9]\.py", listed))):
        yield "read_text_file", {"path": str(repository / name)}


def _times(repository: Path) -> Calls:
    yield "git_status", {"repo_path": str(repository)}
    for zone in ZONES:
        yield "convert_time", {"source_timezone": "UTC", "time": "09:30", "target_timezone": zone}


def find_commits(log: str) -> list[str]:
    """Return the commits of a log, each once."""
    return list(dict.fromkeys(re.findall(r"[0-9a-f]{40}", log)))[:COMMITS]


_REVIEW = """\
import asyncio
import re
import bench

log = await bench.git_log(repo_path=repository, max_count=6)
commits = []
for sha in re.findall("[0-9a-f]{40}", str(log)):
    if sha not in commits:
        commits.append(sha)
shown = await asyncio.gather(*[bench.git_show(repo_path=repository, revision=sha) for sha in commits])
names = [re.findall("module_[0-9][.]py", str(one))[0] for one in shown]
infos = await asyncio.gather(*[bench.get_file_info(path=repository + "/" + name) for name in names])
listed = await bench.list_directory(path=repository)
times = await asyncio.gather(
    *[bench.convert_time(source_timezone="UTC", time="09:30", target_timezone=zone) for zone in zones]
)
rows = [[commits[n][:7], names[n], "size" in str(infos[n])] for n in range(len(commits))]
rows + [len(times), str(listed).count(".py")]
"""

_COUNT = """\
import asyncio
import re
import bench

listed = str(await bench.list_directory(path=repository))
names = []
for name in re.findall("module_[0-9][.]py", listed):
    if name not in names:
        names.append(name)
texts = await asyncio.gather(*[bench.read_text_file(path=repository + "/" + name) for name in names])
[[names[n], str(texts[n]).count("TODO")] for n in range(len(names))]
"""

_TIMES = """\
import asyncio
import bench

status = str(await bench.git_status(repo_path=repository))
times = await asyncio.gather(
    *[bench.convert_time(source_timezone="UTC", time="09:30", target_timezone=zone) for zone in zones]
)
["nothing to commit" in status, len(times)]
"""

TASKS = (
    Task("review: 20 calls", "log and show commits, file info, list directory, convert time", _review, 3, _REVIEW),
    Task("count: 7 calls", "list directory and read text file", _count, 2, _COUNT),
    Task("times: 7 calls", "convert time, git status", _times, 1, _TIMES),
)


def script_for_fastmcp(script: str, values: dict[str, Any]) -> str:
    """Return a script for FastMCP: its calls by name, its values in its text, and its last expression returned."""
    tree = _ByName().visit(ast.parse(script))
    last = tree.body[-1]
    assert isinstance(last, ast.Expr), "a script ends in an expression"
    tree.body[-1] = ast.copy_location(ast.Return(last.value), last)
    given = [ast.parse(f"{name} = {value!r}").body[0] for name, value in values.items()]
    tree.body = given + [one for one in tree.body if not (isinstance(one, ast.Import) and one.names[0].name == "bench")]
    return ast.unparse(ast.fix_missing_locations(tree))


class _ByName(ast.NodeTransformer):
    """Replaces calls of the module `bench` by calls of `call_tool`."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        called = node.func
        if not (
            isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "bench"
        ):
            return node
        owner = next((server for server, tools in OWNERS.items() if called.attr in tools), "git")
        arguments = ast.Dict([ast.Constant(one.arg) for one in node.keywords], [one.value for one in node.keywords])
        return ast.Call(ast.Name("call_tool"), [ast.Constant(f"{owner}_{called.attr}"), arguments], [])
