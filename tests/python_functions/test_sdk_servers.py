"""A definition that makes an MCP server of its own: its tools are served, and a command is named for the rest."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.descriptors import Discovery
from patchbay.kinds.discovery import discover

ENTRIES = '''
def helper(path: str) -> str:
    return path


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def ask(ctx: Context, words: str) -> str:
    return words


@mcp.resource("config://version")
def get_version() -> str:
    return "1"


@mcp.prompt
def review(code: str) -> str:
    return code
'''
LIBRARIES = {
    "from fastmcp import Context, FastMCP\nmcp = FastMCP('Demo')": "uv run --with fastmcp fastmcp run",
    "import fastmcp\nfrom fastmcp import Context\nmcp = fastmcp.FastMCP('Demo')": "uv run --with fastmcp fastmcp run",
    "from mcp.server.fastmcp import Context, FastMCP\nmcp = FastMCP('Demo')": "uv run --with 'mcp[cli]<2' mcp run",
    "from mcp.server.mcpserver import Context, MCPServer\nmcp = MCPServer('Demo')": "uv run --with 'mcp[cli]' mcp run",
}


def found(source: str) -> Discovery:
    return discover("python", "demo", source.encode())


@pytest.mark.parametrize("start", LIBRARIES)
def test_only_functions_with_tool_are_tools_and_each_other_entry_is_named(start: str) -> None:
    read = found(start + "\n" + ENTRIES)
    assert [one.name for one in read.descriptors] == ["add"]
    reasons = {one.where: one.reason for one in read.problems}
    assert set(reasons) == {"demo.py", "ask", "get_version", "review"}
    assert "@resource" in reasons["get_version"] and "@prompt" in reasons["review"]
    assert "its parameter ctx is the Context" in reasons["ask"]


@pytest.mark.parametrize(("start", "command"), LIBRARIES.items())
def test_the_file_is_a_problem_with_the_commands_that_serve_all_of_it(start: str, command: str) -> None:
    [notice] = [one for one in found(start + "\n" + ENTRIES).problems if one.where == "demo.py"]
    assert notice.line == start.count("\n") + 1 and "resources, prompts and settings" in notice.reason
    assert notice.fix is not None
    move, mount = notice.fix.splitlines()
    assert move == "mkdir -p ~/mcp && mv servers/demo.py ~/mcp/"
    assert shlex.split(mount) == ["patchbay", "mount", "demo", "--", *shlex.split(command), "~/mcp/demo.py"]


def test_a_server_whose_functions_have_no_decorator_leaves_all_functions_tools() -> None:
    read = found("from fastmcp import FastMCP\nmcp = FastMCP('x')\ndef add(a: int) -> int: ...\nmcp.add_tool(add)\n")
    assert [one.name for one in read.descriptors] == ["add"]
    assert [one.where for one in read.problems] == ["demo.py"]


def test_a_decorator_of_another_object_is_none_of_a_server() -> None:
    read = found("from own import Registry\nmcp = Registry()\n@mcp.resource('x')\ndef add(a: int) -> int: ...\n")
    assert [one.name for one in read.descriptors] == ["add"] and read.problems == ()


@pytest.mark.process
def test_the_command_runs_such_a_file(tmp_path: Path) -> None:
    """`fastmcp run` of the installed FastMCP, without the download of `uv run --with`."""
    file = tmp_path / "demo.py"
    file.write_text("from fastmcp import FastMCP\nmcp = FastMCP('Demo')\n@mcp.tool\ndef add(a: int) -> int: return a\n")
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("fastmcp")), "run", str(file), "--no-banner"],
        input=b"",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert b"Demo" in ended.stderr and ended.returncode == 0, ended.stderr
