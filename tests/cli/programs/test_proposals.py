"""`mount` and `import` write the lines that a program needs, because its command line names them, and print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.watching.mount_files import check_mount
from patchbay.upstreams.configuration import mount_of
from tests.cli.workspace import Workspace


def mounted(workspace: Workspace, name: str) -> dict[str, Any]:
    """The definition that a command wrote, as the hub reads it."""
    fields: dict[str, Any] = json.loads((workspace.work / "servers" / f"{name}.json").read_text())
    check_mount(name, fields, name)
    return fields


@pytest.fixture
def notes(workspace: Workspace) -> Path:
    workspace.environment |= {
        "PATCHBAY_SERVERS": str(workspace.work / "servers"), "PATCHBAY_DATA": str(workspace.work / "data")
    }  # fmt: skip
    folder = workspace.home / "notes"
    folder.mkdir()
    return folder


def test_mount_writes_the_folder_that_an_argument_names_and_prints_it(workspace: Workspace, notes: Path) -> None:
    done = workspace.quick(f'patchbay mount files "mcp+stdio:npx -y server-filesystem {notes}"')
    assert done.code == 0, done.err
    assert f'"writes": ["{notes}"]' in done.err and "an argument names it" in done.err
    assert mounted(workspace, "files")["writes"] == [str(notes)]
    assert mount_of("files", mounted(workspace, "files"), "").permissions.writes == (str(notes),)


def test_mount_writes_the_folder_of_a_file_that_a_variable_names(workspace: Workspace, notes: Path) -> None:
    line = f"patchbay mount memory mcp+npx://server-memory --env MEMORY_FILE_PATH={notes}/memory.json"
    assert workspace.quick(line).code == 0
    assert mounted(workspace, "memory")["writes"] == [str(notes)]


def test_mount_says_why_it_does_not_open_the_home_folder(workspace: Workspace, notes: Path) -> None:
    done = workspace.quick(f'patchbay mount all "mcp+stdio:npx -y server-filesystem {workspace.home}"')
    assert done.code == 0 and "is not proposed" in done.err
    assert "writes" not in mounted(workspace, "all")


def test_options_of_mount_say_what_the_program_may_do(workspace: Workspace, notes: Path) -> None:
    options = f"--writes {notes} --reads ~/.config/gh --needs browser --no-network --home user --confine required"
    assert workspace.quick(f"patchbay mount any mcp+npx://some-package {options}").code == 0
    found = mounted(workspace, "any")
    wanted = {"writes": [str(notes)], "needs": "browser", "network": False, "home": "user", "confine": "required"}
    assert wanted.items() <= found.items() and found["reads"][0].endswith("/.config/gh")
    refused = workspace.quick("patchbay mount far https://far.example/mcp --writes /srv/notes")
    assert refused.code == 2 and "expected only for the address of a program" in refused.err


def test_import_writes_the_lines_of_each_program(workspace: Workspace, notes: Path) -> None:
    servers = {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", str(notes)]},
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
    }
    (workspace.work / "saved.json").write_text(json.dumps({"mcpServers": servers}))
    done = workspace.quick("patchbay import saved.json --client cursor --all")
    assert done.code == 0, done.err
    assert mounted(workspace, "files")["writes"] == [str(notes)]
    assert "writes" not in mounted(workspace, "time")
