"""The MCP source as one self-contained file, built here as a release builds it: a program that works by itself."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts import single_file
from scripts.single_file import ROOT, write
from tests.client.peers import UV, fetched, uv_cache

TIME = "mcp+uvx://mcp-server-time/mcp-server-time"
VENDORED = {
    "ProfileError",
    "find_profile_paths",
    "substitute_env_vars",
    "substitute_env_vars_recursive",
    "load_hierarchical_profile",
    "list_server_tools",
    "resolve_profile_reference",
}


@cache
def built() -> Path:
    """The file, built from the present source."""
    target = ROOT / ".pytest_cache" / "single_file" / "mcp_.py"
    write(target)
    return target


@pytest.fixture(scope="module")
def tree() -> ast.Module:
    return ast.parse(built().read_text("utf-8"))


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The file by itself, in a folder that is also HOME."""
    path = tmp_path / "mcp_.py"
    path.write_bytes(built().read_bytes())
    return path


@cache
def offline() -> Mapping[str, str]:
    """Have uv fetch once what the file needs and what is run here; later starts do not ask PyPI again."""
    subprocess.run([UV, "sync", "--quiet", "--script", str(built())], check=True)
    return fetched("mcp-server-time")


def run(plugin: Path, *words: str, lines: str = "", **variables: str) -> list[dict[str, Any]]:
    environ = {
        name: os.environ[name] for name in os.environ if name.startswith(("PATH", "UV_", "SSL_", "HTTP", "http"))
    }
    path = os.pathsep.join((str(Path(UV).parent), os.environ.get("PATH", os.defpath)))
    environ |= {"PATH": path, "HOME": str(plugin.parent), "UV_CACHE_DIR": uv_cache(), **offline(), **variables}
    command = [UV, "run", "--quiet", "--script", str(plugin), *words]
    done = subprocess.run(
        command, cwd=plugin.parent, env=environ, input=lines, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_single_file_imports_no_framework_and_has_the_resolver(tree: ast.Module) -> None:
    """JN-39, JN-40: one file, no framework import, every function that JN's checker wants."""
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert not imported & {"patchbay", "jn", "flask", "click", "app"}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert defined >= VENDORED | {"reads", "writes", "calculate_schema_hash"}


def test_the_metadata_names_dependencies_and_addresses() -> None:
    """JN-20, JN-39: PEP 723."""
    head = built().read_text("utf-8").partition('"""')[0]
    assert head.startswith("#!/usr/bin/env -S uv run --script\n# /// script\n")
    needed = set(head.split('"')[3:-1:2])
    assert {"mcp>=2.3,<3", "orjson>=3.11,<4"} <= needed and not any("flask" in one for one in needed)
    assert '# matches = ["^mcp' in head


def test_it_calls_a_tool_of_a_real_server_by_itself(alone: Path) -> None:
    """JN-21, JN-39: `uv run --script mcp_.py --mode read ADDRESS`."""
    (record,) = run(alone, "--mode", "read", f"{TIME}?tool=get_current_time&timezone=UTC")
    assert (record["type"], record["tool"], record["mimeType"]) == ("tool_result", "get_current_time", "text/plain")
    assert json.loads(record["text"])["timezone"] == "UTC"


def test_it_uses_a_profile_with_variables_and_writes_record_by_record(alone: Path) -> None:
    """JN-7, JN-12, JN-15, JN-21, J-F7, J-F8."""
    folder = alone.parent / ".jn" / "profiles" / "mcp" / "time"
    folder.mkdir(parents=True)
    meta = {"command": "${UV}", "args": ["run", "--with", "mcp-server-time", "mcp-server-time"], "transport": "stdio"}
    (folder / "_meta.json").write_text(json.dumps(meta))
    bad = 'nonsense\n"' + "\u00e9" * 60 + '"\n'
    lines = f'{{"timezone": "UTC", "_n": 1}}\n{bad}{{"timezone": "Nowhere/At"}}\n{{"timezone": "Asia/Tokyo"}}\n'
    found = run(alone, "--mode", "write", "@time/get_current_time", lines=lines, UV=UV)
    assert [one["type"] for one in found] == ["tool_result", *["json_decode_error"] * 2, *["tool_result"] * 2]
    assert "UTC" in found[0]["text"] and found[3]["isError"] and "Asia/Tokyo" in found[4]["text"]


def test_it_inspects_explores_and_hashes(alone: Path) -> None:
    """JN-21, JN-53, JN-54."""
    address = TIME
    (inspected,) = run(alone, "--mode", "inspect", address)
    (explored,) = run(alone, "--mode", "explore", address)
    assert {"server", "transport", "tools", "resources"} <= inspected.keys()
    tools = explored["discoverable"]["tools"]
    assert [{key: value for key, value in one.items() if key != "parameters"} for one in tools] == inspected["tools"]
    assert run(alone, "--mode", "version", address) == [{"version": explored["version_hash"]}]


def test_an_unknown_profile_is_an_error_record_and_the_exit_code_stays_0(alone: Path) -> None:
    """JN-19, JN-20, J-F14."""
    (record,) = run(alone, "--mode", "read", "@none/tool")
    assert record["_error"] is True and record["type"] == "profile_error" and "none" in record["message"]


def test_the_mode_is_required_and_help_lists_the_modes() -> None:
    """JN-20, J-F14."""
    bare = subprocess.run([sys.executable, str(built())], capture_output=True, text=True, cwd=ROOT)
    assert bare.returncode == 2 and "--mode" in bare.stderr
    shown = subprocess.run([sys.executable, str(built()), "--help"], capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0 and "read,write,inspect" in shown.stdout


def test_it_is_made_without_the_formatter_of_the_tests_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """34.19: scripts/run installs no ruff."""
    monkeypatch.setattr(single_file, "find_spec", lambda name: None)
    write(tmp_path / "mcp_.py")
    shown = subprocess.run(
        [sys.executable, str(tmp_path / "mcp_.py"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--mode" in shown.stdout
