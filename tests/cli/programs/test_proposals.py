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


def write_saved(workspace: Workspace, notes: Path) -> None:
    files = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", str(notes)]}
    (workspace.work / "saved.json").write_text(json.dumps({"mcpServers": {"files": files}}))


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"writes": []}, True),
        ({"writes": ["~/other"], "changes": "tell"}, True),
        ({"writes": ["~"]}, False),
        ({"confine": "off"}, False),
    ],
    ids=["without a line", "with another line", "with an open folder", "not confined"],
)
def test_import_of_a_server_that_is_here_adds_the_lines_that_it_lacks(
    workspace: Workspace, notes: Path, own: dict[str, Any], added: bool
) -> None:
    write_saved(workspace, notes)
    assert workspace.quick("patchbay import saved.json --client cursor --all").code == 0
    file = workspace.work / "servers" / "files.json"
    fields = mounted(workspace, "files")
    del fields["writes"]
    file.write_text(json.dumps(fields | own))
    listed = workspace.quick("patchbay import saved.json --client cursor --all")
    assert (f'files lacks "writes": ["{notes}"]' in listed.out) is added, listed.out
    assert mounted(workspace, "files") == fields | own, "only a server that the user names is imported again"
    again = workspace.quick("patchbay import saved.json --client cursor files")
    assert again.code == 0, again.err
    wanted = own | ({"writes": [*own["writes"], str(notes)]} if added else {})
    assert mounted(workspace, "files") == fields | wanted
    assert ("files runs confined" in again.err) is added


def test_a_mount_that_cannot_be_read_is_left_out_of_an_import_and_the_others_are_written(
    workspace: Workspace, notes: Path
) -> None:
    write_saved(workspace, notes)
    assert workspace.quick("patchbay import saved.json --client cursor --all").code == 0
    file = workspace.work / "servers" / "files.json"
    file.write_text(json.dumps(mounted(workspace, "files") | {"network": True, "writes": 5}))
    done = workspace.quick("patchbay import saved.json --client cursor files")
    assert done.code == 2 and "files of cursor is left out" in done.err and "writes" in done.err


def test_nothing_is_proposed_where_the_hub_confines_no_program(workspace: Workspace, notes: Path) -> None:
    workspace.environment["PATCHBAY_CONFINE"] = "off"
    done = workspace.quick(f'patchbay mount files "mcp+stdio:npx -y server-filesystem {notes}"')
    assert done.code == 0 and "runs confined" not in done.err and "writes" not in mounted(workspace, "files")


def test_mount_says_that_calls_name_the_files_of_an_excel_server(workspace: Workspace, notes: Path) -> None:
    done = workspace.quick('patchbay mount excel "mcp+uvx://excel-mcp-server?launch.arg=stdio"')
    assert done.code == 0, done.err
    assert "Calls of excel-mcp-server may name files of yours" in done.err and '"writes": ["FOLDER"]' in done.err
    assert "names:" not in done.err and "writes" not in mounted(workspace, "excel")
    given = workspace.quick(f'patchbay mount --writes {notes} other "mcp+uvx://excel-mcp-server?launch.arg=stdio"')
    assert given.code == 0 and "may name files" not in given.err
