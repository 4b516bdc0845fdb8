"""Which version of a package is newer, and which of the pinned peers are behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from patchbay.client.registry.versions import is_newer
from scripts.outdated_peers import pinned_peers
from tests.checkout import ROOT
from tests.cli.registries import VERSIONS, registries


@pytest.mark.parametrize(
    ("newest", "version", "expected"),
    [
        ("1.10.0", "1.9.9", True),
        ("1.9.9", "1.10.0", False),
        ("2.0", "2.0.0", False),
        ("0.1.9", "0.2.0-alpha.12", False),
        ("0.2.0", "0.2.0-alpha.12", True),
        ("0.2.0-alpha.1", "0.2.0", False),
        ("1.0", "1.0.post1", False),
        ("2026.8.31", "", True),
    ],
)
def test_numbers_are_compared_as_numbers_and_a_prerelease_is_older(newest: str, version: str, expected: bool) -> None:
    """37.5"""
    assert is_newer(newest, version) is expected


@pytest.mark.process
def test_the_command_names_the_peers_that_are_behind() -> None:
    """37.5"""
    name = "@modelcontextprotocol/server-everything"
    pinned = {peer: version for _, peer, version in pinned_peers(ROOT)}
    assert {name, "fastmcp", "mcp", "@modelcontextprotocol/server"} <= set(pinned)
    with registries() as url:
        command = [str(ROOT / "scripts/peers"), "--outdated", "--npm", url, "--pypi", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert VERSIONS["npm", name] == pinned[name]
    assert done.returncode == 0 and f"0 of {len(pinned)} peers are behind" in done.stdout, done.stdout + done.stderr


def test_every_node_peer_has_an_exact_version() -> None:
    """37.5"""
    dependencies = json.loads(Path(ROOT / "tests/node/package.json").read_text("utf-8"))["dependencies"]
    assert all(version[0].isdigit() for version in dependencies.values())
