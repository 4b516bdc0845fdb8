"""`patchbay search`, `add` and `outdated` with a local copy of the registries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from patchbay.cli.commands.patchbay import main
from patchbay.pins.records import load_pins
from tests.cli.registries import VERSIONS, registries
from tests.hubs import Hub
from tests.waiting import until


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with registries() as found:
        yield found


def patchbay(folder: Path, url: str, *words: str) -> Result:
    """Run a command on this servers folder with these registries."""
    options = {
        "search": ["--registry", url],
        "add": ["--registry", url, "--pypi", url, "--npm", url, "--servers", str(folder)],
        "outdated": ["--pypi", url, "--npm", url, "--servers", str(folder), "--data", str(folder.parent / "data")],
    }
    return CliRunner().invoke(main, [*words, *options[words[0]]])


def mounted(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def test_a_search_goes_through_all_pages_and_names_the_ways(tmp_path: Path, url: str) -> None:
    """37.4"""
    done = patchbay(tmp_path, url, "search", "io.github")
    assert done.exit_code == 0 and len(done.output.splitlines()) == 5
    assert "io.github.modelcontextprotocol/time" in done.output and "[pypi]" in done.output
    assert patchbay(tmp_path, url, "search", "nothing-of-this-name").exit_code == 1
    done = patchbay(tmp_path, url, "search", "fetch", "the", "time")
    assert [line.split()[0].rpartition("/")[2] for line in done.output.splitlines()] == ["fetch", "time"], done.output


def test_what_is_added_has_an_exact_version_and_was_shown_before(tmp_path: Path, url: str) -> None:
    """37.4"""
    done = patchbay(tmp_path, url, "add", "time", "--yes")
    assert done.exit_code == 0, done.output
    version = VERSIONS["pypi", "mcp-server-time"]
    assert f"runs mcp-server-time {version} of PyPI on this machine with --local-timezone UTC" in done.output
    address = f"mcp+uvx://mcp-server-time@{version}?launch.arg=--local-timezone&launch.arg=UTC"
    assert mounted(tmp_path, "time") == {"kind": "upstream", "address": address}


def test_nothing_is_written_without_an_answer(tmp_path: Path, url: str) -> None:
    """37.4"""
    done = patchbay(tmp_path, url, "add", "time")
    assert done.exit_code == 2 and "--yes" in done.output and "runs mcp-server-time" in done.output
    assert not list(tmp_path.glob("*.json"))


def test_add_writes_the_line_for_what_a_value_names_and_says_which_files_only_calls_name(
    tmp_path: Path, url: str
) -> None:
    """49"""
    kept, servers = tmp_path / "kept", tmp_path / "servers"
    kept.mkdir()
    done = patchbay(servers, url, "add", "pypi:mcp-server-fetch", "--yes", "--env", f"DB_URL=sqlite:///{kept}/b.db")
    assert done.exit_code == 0 and f'"writes": ["{kept}"]' in done.output, done.output
    assert mounted(servers, "fetch")["writes"] == [str(kept)]
    plain = patchbay(servers, url, "add", "pypi:mcp-server-git", "--yes")
    assert plain.exit_code == 0 and "Calls of mcp-server-git may name files of yours" in plain.output
    assert "writes" not in mounted(servers, "git")


def test_a_secret_is_a_reference_and_a_required_value_has_to_be_given(tmp_path: Path, url: str) -> None:
    """37.4"""
    name = "com.example/weather"
    missing = patchbay(tmp_path, url, "add", name, "--yes")
    assert missing.exit_code == 2 and "X-Region" in missing.output
    plain = patchbay(
        tmp_path, url, "add", name, "--yes", "--env", "Authorization=Bearer secret", "--env", "X-Region=eu"
    )
    assert plain.exit_code == 2 and "this is a secret" in plain.output
    done = patchbay(tmp_path, url, "add", name, "--yes", "--env", "X-Region=eu")
    assert done.exit_code == 0, done.output
    assert "Authorization = ${AUTHORIZATION} [required, secret]" in done.output
    assert mounted(tmp_path, "weather")["headers"] == {"X-Region": "eu", "Authorization": "${AUTHORIZATION}"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("weather", "com.example/weather, com.other/weather"),
        ("com.example/boxed", "the hub starts packages of npm and PyPI"),
        ("com.example/evil", "its name is not a name of a package"),
        ("com.example/none", "patchbay search WORD"),
        ("nothing-of-this-name", "pypi:NAME or npm:NAME"),
        ("pypi:unknown-package", "has no package"),
        ("npm:--registry=http://evil", "is not a name of a package"),
    ],
)
def test_what_cannot_be_added_is_refused_with_the_reason(tmp_path: Path, url: str, name: str, says: str) -> None:
    done = patchbay(tmp_path, url, "add", name, "--yes")
    assert done.exit_code == 2 and says in done.output, done.output
    assert not list(tmp_path.glob("*.json"))


def test_packages_of_pypi_and_npm_are_added_by_their_names(tmp_path: Path, url: str) -> None:
    """37.4"""
    assert patchbay(tmp_path, url, "add", "pypi:mcp-server-git", "--yes").exit_code == 0
    assert patchbay(tmp_path, url, "add", "npm:@modelcontextprotocol/server-memory", "--yes").exit_code == 0
    assert mounted(tmp_path, "git")["address"] == f"mcp+uvx://mcp-server-git@{VERSIONS['pypi', 'mcp-server-git']}"
    assert mounted(tmp_path, "memory")["address"].startswith("mcp+npx://@modelcontextprotocol/server-memory@2026")


def test_outdated_names_the_packages_with_a_newer_version(tmp_path: Path, url: str) -> None:
    """37.4"""
    for name, address in {
        "time": "mcp+uvx://mcp-server-time@2025.1.1/mcp-server-time?launch.arg=x",
        "git": f"mcp+uvx://mcp-server-git=={VERSIONS['pypi', 'mcp-server-git']}",
        "memory": "mcp+npx://@modelcontextprotocol/server-memory@2025.1.1",
        "far": "https://far.example/mcp",
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address}))
    done = patchbay(tmp_path, url, "outdated")
    assert done.exit_code == 0, done.output
    memory, time = VERSIONS["npm", "@modelcontextprotocol/server-memory"], VERSIONS["pypi", "mcp-server-time"]
    assert done.output.splitlines() == [
        f"memory: @modelcontextprotocol/server-memory 2025.1.1 -> {memory}",
        f"time: mcp-server-time 2025.1.1 -> {time}",
    ]


def offers(hub: Hub, name: str, tool: str) -> bool:
    """Whether the hub serves a tool of a server."""
    return tool in getattr(hub.catalogue.find_any(name), "tools", ())


FIVE = {
    "time": ("get_current_time", {"timezone": "UTC"}),
    "git": ("git_status", {"repo_path": "."}),
    "fetch": ("fetch", {"url": "http://127.0.0.1:1/"}),
    "memory": ("read_graph", {}),
    "everything": ("echo", {"message": "hello"}),
}
"""Five real servers, and one call of each."""


@pytest.mark.full
@pytest.mark.process
def test_five_real_servers_are_added_and_called_once(tmp_path: Path, url: str) -> None:
    """37.4"""
    hub = Hub(tmp_path)
    try:
        for name in FIVE:
            done = patchbay(hub.servers, url, "add", f"io.github.modelcontextprotocol/{name}", "--yes")
            assert done.exit_code == 0, done.output
        for name, (tool, arguments) in FIVE.items():
            until(partial(offers, hub, name, tool), f"{name}.{tool}")
            result = hub.call(name, tool, arguments).result
            assert result["content"], result
    finally:
        hub.close()


@pytest.mark.full
@pytest.mark.process
def test_an_update_is_rehearsed_against_the_pins_before_it_is_mounted(tmp_path: Path, url: str) -> None:
    """37.4"""
    old = {"kind": "upstream", "address": "mcp+uvx://mcp-server-time@2026.8.18?launch.arg=--local-timezone=UTC"}
    hub = Hub(tmp_path, {"time.json": json.dumps(old)}, store="sqlite")
    try:
        until(partial(offers, hub, "time", "get_current_time"), "the old version")
        until(lambda: load_pins(hub.catalogue.store, "time").document, "its pins")
    finally:
        hub.close()
    # The newest version describes its time zones in other words than the one before it.
    refused = patchbay(hub.servers, url, "outdated", "--update", "time")
    assert refused.exit_code == 6 and "tool:get_current_time changes" in refused.output, refused.output
    assert mounted(hub.servers, "time") == old
    done = patchbay(hub.servers, url, "outdated", "--update", "time", "--accept")
    assert done.exit_code == 0, done.output
    assert "@2026.10.19?launch.arg=" in mounted(hub.servers, "time")["address"]


@pytest.mark.parametrize(
    ("typed", "step"),
    [
        ("https://mcp.far.example/mcp", "run `patchbay mount far https://mcp.far.example/mcp`"),
        ("https://shop.example/openapi.json", "run `patchbay new shop --api https://shop.example/openapi.json`"),
        ("openapi+https://shop.example", "run `patchbay new shop --api https://shop.example`"),
        ("npx -y some-package", "run `patchbay mount some-package -- npx -y some-package`"),
        ("mcp+npx://some-package", "run `patchbay mount some-package mcp+npx://some-package`"),
        ("{folder}/tools.py", "cp {folder}/tools.py {servers}/"),
        ("{folder}/own.py", "Run `patchbay mount own -- uv run --with fastmcp fastmcp run {folder}/own.py`"),
        ("{folder}/desktop.json", "`patchbay import {folder}/desktop.json` reads a file for MCP clients"),
        ("{folder}", "`patchbay new NAME --folder {folder}` serves its documents"),
        ("{folder}/none.py", "there is no such file"),
        ("mcp+foo://x", "the launcher 'foo' is not known"),
    ],
)
def test_a_url_a_file_or_a_command_line_in_place_of_a_name_gets_the_command_for_it(
    tmp_path: Path, typed: str, step: str
) -> None:
    """No registry is asked: the one of this test does not answer."""
    servers = tmp_path / "servers"
    (tmp_path / "tools.py").write_text("")
    (tmp_path / "own.py").write_text("from fastmcp import FastMCP\nmcp = FastMCP('x')\n")
    (tmp_path / "desktop.json").write_text("{}")
    places = {"folder": str(tmp_path), "servers": str(servers)}
    done = patchbay(servers, "http://127.0.0.1:9", "add", typed.format(**places))
    assert done.exit_code == 2 and step.format(**places) in done.output, done.output
    assert not servers.exists()


def test_a_name_with_a_slash_is_still_one_of_the_registry(tmp_path: Path, url: str) -> None:
    done = patchbay(tmp_path, url, "add", "io.github.modelcontextprotocol/time", "--yes")
    assert done.exit_code == 0, done.output
