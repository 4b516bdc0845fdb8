"""A toolset of tools of published servers gives every independent client the same over every way. Issue 54.

`scripts/acceptance --toolsets` does the same with twelve servers of PyPI and npm, made on the page by hand.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interaction.balanced import running_nodes
from tests.interaction.peers import MODERN, NODE, PACKAGES, PythonSdk
from tests.interaction.programs import Hub, running_hub
from tests.interaction.toolset_uses import (
    InRoom,
    OverStdio,
    ToolsetCall,
    ToolsPeer,
    all_peers,
    announced,
    call_origins,
    compare,
    describe_toolset,
)
from tests.serving.running import ONE_WORKER
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.node]

OFFICIAL = PACKAGES / "node_modules/@modelcontextprotocol"

DAYS = '''def weekday(day: int, short: bool = False) -> str:
    """Name a day of the week."""
    return ["Monday", "Tuesday", "Wednesday"][day][: 3 if short else None]
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("toolsets")
    (made / "notes").mkdir()
    (made / "notes" / "note.txt").write_text("a note\n")
    return made


@pytest.fixture(scope="module")
def calls(folder: Path) -> tuple[ToolsetCall, ...]:
    return (
        ToolsetCall("note", "files.read_text_file", {}, {"path": str(folder / "notes" / "note.txt")}),
        ToolsetCall("list_directory", "files.list_directory", {"path": str(folder / "notes")}),
        ToolsetCall("echo", "everything.echo", {"message": "Grüße"}),
        ToolsetCall("double", "everything.get-sum", {"a": 21}, {"b": 21}),
        ToolsetCall("get-structured-content", "everything.get-structured-content", {"location": "New York"}),
        ToolsetCall("day", "days.weekday", {"day": 1}, {"short": True}),
    )


@pytest.fixture(scope="module")
def definitions(folder: Path, calls: tuple[ToolsetCall, ...]) -> list[Path]:
    files = folder / "definitions"
    files.mkdir()
    programs = {
        "files": [OFFICIAL / "server-filesystem/dist/index.js", folder / "notes"],
        "everything": [OFFICIAL / "server-everything/dist/index.js"],
    }
    for name, words in programs.items():
        address = f"mcp+stdio:{shlex.join(map(str, [NODE, *words]))}"
        (files / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address}))
    (files / "days.py").write_text(DAYS)
    (files / "six.json").write_text(json.dumps(describe_toolset(calls)))
    return sorted(files.iterdir())


def until_all_are_listed(endpoint: str, calls: tuple[ToolsetCall, ...]) -> None:
    """Wait until a toolset has all its tools: a program that still starts lists none."""
    wanted = {one.name for one in calls}
    until(lambda: set(PythonSdk("legacy").tools(endpoint)) == wanted, f"all tools at {endpoint}")


@pytest.fixture(scope="module")
def hub(folder: Path, definitions: list[Path], calls: tuple[ToolsetCall, ...]) -> Iterator[Hub]:
    with running_hub(folder / "hub", definitions, options=ONE_WORKER) as found:
        until_all_are_listed(found.endpoint("six"), calls)
        yield found


@pytest.fixture(scope="module")
def peers(folder: Path) -> Iterator[dict[str, ToolsPeer]]:
    with all_peers(folder / "homes") as found:
        yield found


@pytest.fixture(scope="module")
def expected(hub: Hub, peers: dict[str, ToolsPeer], calls: tuple[ToolsetCall, ...]) -> Mapping[str, str]:
    return call_origins(peers["python-sdk-handshake"], hub.url, calls)


def test_every_client_gets_from_a_toolset_what_the_origins_answer(
    hub: Hub, peers: dict[str, ToolsPeer], calls: tuple[ToolsetCall, ...], expected: Mapping[str, str]
) -> None:
    assert compare(peers, "at the hub", hub.endpoint("six"), calls, expected) == []
    assert {"a note\n", "Tue"} <= set(expected.values())


def test_a_toolset_is_the_same_over_stdio(
    hub: Hub, folder: Path, calls: tuple[ToolsetCall, ...], expected: Mapping[str, str]
) -> None:
    pipes = {mode: OverStdio(folder / "hub" / "data", hub.servers, mode) for mode in ("legacy", MODERN)}
    assert compare(pipes, "over stdio", "six", calls, expected) == []


def test_a_toolset_is_the_same_in_a_room(
    hub: Hub, folder: Path, peers: dict[str, ToolsPeer], calls: tuple[ToolsetCall, ...], expected: Mapping[str, str]
) -> None:
    with announced(hub, folder / "hub" / "data", "six") as (room, prefix):
        members = {name: InRoom(peer, prefix) for name, peer in peers.items() if name != "inspector"}
        assert compare(members, "in a room", room, calls, expected) == []


def test_a_toolset_is_the_same_through_a_mount_in_a_second_hub(
    hub: Hub, folder: Path, peers: dict[str, ToolsPeer], calls: tuple[ToolsetCall, ...], expected: Mapping[str, str]
) -> None:
    (folder / "far.json").write_text(json.dumps({"kind": "upstream", "address": hub.endpoint("six")}))
    with running_hub(folder / "second", [folder / "far.json"], options=ONE_WORKER) as second:
        until_all_are_listed(second.endpoint("far"), calls)
        assert compare(peers, "through a second hub", second.endpoint("far"), calls, expected) == []


def test_a_toolset_is_the_same_over_three_nodes(
    folder: Path,
    definitions: list[Path],
    peers: dict[str, ToolsPeer],
    calls: tuple[ToolsetCall, ...],
    expected: Mapping[str, str],
) -> None:
    """Each request reaches another node than the one before."""
    options = ["--enable", "everything", *ONE_WORKER]
    (folder / "nodes").mkdir()
    with running_nodes(folder / "nodes", definitions[0].parent, (), options, None, 3) as nodes:
        for url, _ in nodes.nodes:
            until_all_are_listed(f"{url}/mcp/six", calls)
        assert compare(peers, "over three nodes", nodes.endpoint("six"), calls, expected) == []
