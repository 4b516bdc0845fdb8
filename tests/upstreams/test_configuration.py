"""Which program a mount starts, and which network it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchbay.config import parse_config
from patchbay.errors import ConfigError
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.upstreams.configuration import mount_of


def _folder(address: str) -> str:
    program = mount_of("notes", {"address": address}, "notes.json").program
    places = ProgramPlaces(Path("/programs"))
    return ProgramConfinement("notes", places, ProgramPermissions(), {}, program=program).own_folder.name


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("npx -y @scope/notes@1.2.3", "npx -y @scope/notes@1.3.0-beta.1", True),
        ("npx -y notes@latest", "npx -y notes", True),
        ("uvx notes==1.0", "uvx notes==2.0", True),
        ("npx -y @scope/notes@1.2.3", "npx -y @other/notes@1.2.3", False),
        ("uvx notes==1.0", "uvx letters==1.0", False),
        ("python3 /srv/a.py", "python3 /srv/b.py", False),
        ("ssh me@1.example", "ssh me@2.example", False),
    ],
)
def test_another_program_under_the_same_name_gets_another_folder(one: str, other: str, are_same: bool) -> None:
    first, second = _folder(f"mcp+stdio:{one}"), _folder(f"mcp+stdio:{other}")
    assert first.startswith("notes-") and (first == second) == are_same


@pytest.mark.parametrize(
    ("network", "place", "said"),
    [
        (["a.example", "https://b.example"], "network.1", "without a scheme"),
        (["a.example:99999"], "network.0", "a port from 1 to 65535"),
        (["*"], "network.0", "whole first label"),
    ],
)
def test_a_malformed_host_is_an_error_with_its_place(network: list[str], place: str, said: str) -> None:
    with pytest.raises(ConfigError) as found:
        mount_of("notes", {"address": "mcp+npx://notes", "network": network}, "servers/notes.json")
    assert found.value.path == place and said in found.value.expected


@pytest.mark.parametrize("network", [False, [], ["a.example"]])
def test_a_list_of_hosts_needs_confinement(network: object) -> None:
    fields = {"address": "mcp+npx://notes", "network": network}
    read = mount_of("notes", fields, "servers/notes.json").permissions.network
    assert read is network or [*read] == network  # type: ignore[misc]
    with pytest.raises(ConfigError, match="nothing would enforce it"):
        mount_of("notes", {**fields, "confine": "off"}, "servers/notes.json")


@pytest.mark.parametrize("network", ["a.example", 1, None, [1], {"a": 1}])
def test_a_network_of_another_type_is_an_error(network: object) -> None:
    fields = json.dumps({"kind": "upstream", "address": "mcp+npx://notes", "network": network})
    with pytest.raises(ConfigError, match="network"):
        parse_config(fields.encode(), "servers/notes.json")


def test_a_secret_on_the_command_line_is_named() -> None:
    """Every user of the machine sees command lines; a variable of the process is for its user alone."""

    def exposed(address: str, **fields: Any) -> list[str]:
        return mount_of("far", {"address": address} | fields, "far.json").exposed_variables

    assert exposed("mcp+stdio:server --api-key ${FAR} --root ${FOLDER}") == ["FAR"]
    assert exposed("mcp+stdio:server --token=${FAR}") == ["FAR"]
    assert exposed("mcp+stdio:server ${FAR_TOKEN}") == ["FAR_TOKEN"]
    assert exposed("mcp+stdio:server ${FOLDER}", environment={"TOKEN": "${FAR_TOKEN}"}) == []
    assert exposed("http://127.0.0.1:1/mcp", headers={"X-Key": "${FAR_KEY}"}) == []
