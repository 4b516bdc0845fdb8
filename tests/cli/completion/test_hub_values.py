"""What shell completion asks the running hub, and how it reads the schemas of strangers (issue 47 item 4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.approvals import Approvals, CallDigest
from patchbay.cid import cid_of
from patchbay.cli.completion.hub_values import MAX_VALUES, list_arguments
from patchbay.stores import open_store
from tests.cli.servers.commands import run_command
from tests.cli.shells import ask_bash, ask_program, write_script
from tests.serving.running import Hub, running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asking")


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A running hub whose data folder is `data`, with the script for bash beside it."""
    write_script(folder, "bash")
    with running(folder) as started:
        yield started


@pytest.mark.process
def test_names_of_rooms_are_offered_to_each_command_but_the_one_that_makes_a_room(hub: Hub, folder: Path) -> None:
    for name in ("demo", "den", "team"):
        assert run_command(folder, "room", "create", name).code == 0
    assert ask_bash(folder, "patchbay room join de") == ["demo", "den"]
    assert ask_program(folder, "patchbay room remove t") == ["team"]
    assert ask_program(folder, "patchbay room announce demo mcp+python://x.py --room te") == ["team"]
    assert ask_program(folder, "patchbay room create de") == []


@pytest.mark.process
def test_calls_that_wait_for_an_approval_are_offered_and_decided_ones_are_not(hub: Hub, folder: Path) -> None:
    store = open_store("sqlite", folder / "data")
    try:
        texts = [orjson.dumps({"code": code}) for code in "12"]
        first, second = (
            Approvals(store).request(CallDigest("key:robot", "safe", "v", "open", "d", cid_of(text)), text).id
            for text in texts
        )
    finally:
        store.close()
    assert sorted(ask_program(folder, "patchbay approvals approve ")) == sorted([first, second])
    assert run_command(folder, "approvals", "refuse", first).code == 0
    assert ask_program(folder, "patchbay approvals refuse ") == [second]


@pytest.mark.process
def test_tools_of_a_toolset_are_offered_by_server_and_by_their_names_there(hub: Hub, folder: Path) -> None:
    """Issue 54: a toolset is made without knowing the names by heart."""
    assert ask_program(folder, "patchbay toolset new release jq/ke") == ["jq/keys"]
    assert ask_program(folder, "patchbay toolset new release jq.ke") == ["jq.keys"]
    assert ask_program(folder, "patchbay toolset new release markd") == ["markdown/"]
    assert run_command(folder, "toolset", "new", "release", "jq.keys", "markdown.headings").code == 0
    assert run_command(folder, "toolset", "rename", "release", "keys", "members").code == 0
    assert ask_program(folder, "patchbay toolset add release markdown/con") == ["markdown/convert"]
    for command in ("remove", "rename", "set"):
        assert ask_program(folder, f"patchbay toolset {command} release me") == ["members"], command


@pytest.mark.process
def test_arguments_of_a_prompt_are_offered(hub: Hub, folder: Path) -> None:
    assert ask_program(folder, "patchbay prompt markdown dr") == ["draft"]
    assert ask_bash(folder, "patchbay prompt markdown draft to") == ["topic=", "tone="]
    assert ask_program(folder, "patchbay prompt /mcp/markdown draft top") == ["topic="]


@pytest.mark.process
def test_completion_without_a_hub_makes_no_data_folder(tmp_path: Path) -> None:
    for words in ("key revoke ", "people remove ", "restore ", "rollback notes ", "room join ", "approvals refuse "):
        assert ask_program(tmp_path, f"patchbay {words}") == []
    assert not (tmp_path / "data").exists()


def test_a_schema_that_refers_to_itself_ends() -> None:
    """A mounted server chooses its schemas: one branches into itself twice, one is ten thousand schemas deep."""
    itself = {"anyOf": [{"$ref": "#/$defs/both"}, {"$ref": "#/$defs/both"}, {"enum": ["red"]}]}
    schema = {"properties": {"colour": {"$ref": "#/$defs/both"}}, "$defs": {"both": itself}}
    assert list_arguments(schema) == {"colour": ["red"]}
    deep: dict[str, Any] = {"const": "bottom"}
    for _ in range(10_000):
        deep = {"anyOf": [deep]}
    assert list_arguments({"properties": {"way": deep}}) == {"way": []}


def test_a_long_enumeration_is_cut() -> None:
    found = list_arguments({"properties": {"number": {"enum": list(range(100_000))}}})
    assert found["number"] == [str(one) for one in range(MAX_VALUES)]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"properties": ["a"]},
        {"properties": {"a": 5}},
        {"properties": {"a": {"enum": 5, "anyOf": "text", "oneOf": {"x": 1}}}},
        {"properties": {"a": {"$ref": 5}}},
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": []},
        {"properties": {"a": {"enum": [{}, [], None]}}},
    ],
)
def test_parts_of_a_schema_with_a_wrong_type_offer_nothing(schema: Any) -> None:
    assert set(map(tuple, list_arguments(schema).values())) <= {()}


def test_values_are_offered_as_they_are_typed() -> None:
    schema = {"properties": {"a": {"oneOf": [{"type": "boolean"}, {"enum": [1, 2.5, "x"]}, {"const": True}]}}}
    assert list_arguments(schema) == {"a": ["true", "false", "1", "2.5", "x"]}
