"""The directory finds servers that appear, change and disappear."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from patchbay.catalogue.search.directory import Directory
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.embeddings.selection import select
from tests.checkout import ROOT
from tests.embeddings.small_models import make_model
from tests.waiting import until


def server(name: str, *tools: str) -> Server:
    found = {
        tool: Descriptor("tool", tool, {"name": tool, "description": f"Do {tool}.", "inputSchema": {}}, {}, "static")
        for tool in tools
    }
    return Server(name, f"v-{name}", "static", description=f"About {name}", tools=found)


def names(found: list[object]) -> list[str]:
    return [each.name for each in found]  # type: ignore[attr-defined]


def test_servers_and_tools_are_found_by_their_words() -> None:
    directory = Directory()
    servers = [server("north", "dig_hole", "fill_hole"), server("south", "dig_well")]
    found = [each for each in directory.find(servers, "dig") if each.why != "meaning"]
    assert {(each.kind, each.server, each.name, each.place) for each in found} == {
        ("tool", "north", "dig_hole", 1),
        ("tool", "south", "dig_well", 1),
    }
    assert next(each.kind for each in directory.find(servers, "about north", kind="server")) == "server"


def test_changed_servers_are_read_again_and_removed_servers_are_dropped() -> None:
    directory = Directory()
    first = server("north", "dig_hole")
    assert names(list(directory.find([first], "hole", "tool"))) == ["dig_hole"]
    changed = replace(first, tools=server("north", "paint_wall").tools)
    assert names(list(directory.find([changed], "hole", "tool"))) == []
    assert names(list(directory.find([changed], "paint", "tool"))) == ["paint_wall"]
    assert directory.find([], "paint") == []


def test_another_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="server, tool, resource, prompt"):
        Directory().find([], "x", "planet")


def test_the_background_leaves_nothing_out() -> None:
    """VWR-5: a search during indexing finds everything."""
    directory = Directory()
    servers = [server(f"town{number}", f"dig_{number}") for number in range(100)]
    directory.prepare(servers)
    assert len(directory.find(servers, "dig", "tool", limit=200)) == 100
    assert len(directory.find(servers, "dig", "tool", limit=200)) == 100
    directory.end()


def test_a_program_that_ends_while_the_index_is_made_ends_quietly() -> None:
    program = (
        "from tests.catalogue.search.test_directory import Directory, server\n"
        "directory = Directory()\n"
        "directory.prepare([server(f'town{number}', *map(str, range(20))) for number in range(2000)])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_entry_is_found_by_its_meaning_and_only_where_it_may_be_seen(tmp_path: Path) -> None:
    select(str(make_model(tmp_path)))
    try:
        directory = Directory()
        servers = [server("kitchen", "broth"), server("darkroom", *(f"photo_{number}" for number in range(30)))]
        (found,) = directory.find(servers, "soup", "tool")
        assert (found.name, found.why, found.snippet) == ("broth", "meaning", "Do broth.")
        assert directory.find(servers, "soup", "resource") == []
        seen = directory.find(servers, "image", "tool", 50, lambda entry: entry.name == "photo_7")
        assert [entry.name for entry in seen] == ["photo_7"]
        assert directory.find(servers[1:], "soup", "tool") == []
    finally:
        select("")


def test_a_search_waits_for_no_vectors_while_they_are_made_in_the_background(tmp_path: Path) -> None:
    select(str(make_model(tmp_path)))
    directory = Directory()
    try:
        servers = [server("kitchen", "broth")]
        directory.prepare(servers)
        assert directory.find(servers, "soup", "tool") == []
        assert [entry.why for entry in directory.find(servers, "broth", "tool")] == [""]
        (found,) = until(lambda: directory.find(servers, "soup", "tool"), "the vectors")
        assert found.why == "meaning"
    finally:
        directory.end()
        select("")
