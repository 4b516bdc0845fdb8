"""A bare name is a room of the hub that runs on the data folder, which the command reaches as its operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay import exit_codes
from patchbay.cli import main
from patchbay.client.rooms.address import RoomAddress
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub where every caller signs in."""
    with running(tmp_path_factory.mktemp("hub"), "--access", "shared") as made:
        yield made


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["room", *words], env={"PATCHBAY_DATA": str(folder / "data")}, prog_name="patchbay")


def test_a_room_is_made_and_listed_by_its_name(hub: Hub) -> None:
    made = run(hub.folder, "create", "demo")
    assert made.exit_code == 0, made.stderr
    assert f"made http://127.0.0.1:{hub.port}/rooms/demo" in made.stdout
    assert run(hub.folder, "say", "demo", "hello").exit_code == 0
    listed = run(hub.folder, "list")
    assert listed.stdout.splitlines()[0].split() == ["NAME", "MEMBERS", "TOOLS", "PROBLEM"]
    assert listed.stdout.splitlines()[1].split()[0] == "demo"
    assert [one["name"] for one in json.loads(run(hub.folder, "list", "--json").stdout)] == ["demo"]


def test_all_pages_of_the_list_are_read(hub: Hub) -> None:
    names = [f"room-{number:03}" for number in range(105)]
    for name in names:
        assert run(hub.folder, "create", name).exit_code == 0
    found = {one["name"] for one in json.loads(run(hub.folder, "list", "--json").stdout)}
    assert set(names) <= found


def test_an_address_gets_no_token_of_the_own_hub(hub: Hub) -> None:
    """Another hub must never see it."""
    refused = run(hub.folder, "create", f"http://127.0.0.1:{hub.port}/rooms/other")
    assert refused.exit_code != 0
    own = RoomAddress("http://127.0.0.1:1", "demo", "secret")
    assert own.add_token({}) == {"Authorization": "Bearer secret"}
    assert own.add_token({"authorization": "Bearer mine"}) == {"authorization": "Bearer mine"}
    assert RoomAddress("http://127.0.0.1:1", "demo").add_token({}) == {}
    assert "secret" not in repr(own)


def test_without_a_running_hub_the_error_names_the_next_step(tmp_path: Path) -> None:
    for words in (("create", "demo"), ("list",)):
        ended = run(tmp_path, *words)
        assert ended.exit_code in (exit_codes.USAGE, exit_codes.UNREACHABLE)
        assert "start it (`patchbay serve`)" in " ".join(ended.stderr.split())


def test_a_call_takes_the_option_of_other_commands_for_text(hub: Hub) -> None:
    assert "--text" in run(hub.folder, "call", "--help").stdout
    ended = run(hub.folder, "call", "demo", "nothing", "tool", "--text")
    assert "No such option" not in ended.stderr
