"""`patchbay room` without a hub: what is typed wrong, and hubs and logs that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay import exit_codes
from patchbay.cli.commands.rooms.group import LATE, room
from patchbay.client.addresses.targets import AddressError
from patchbay.client.rooms.address import parse_room_address
from patchbay.client.rooms.hosted_server import default_id
from patchbay.rooms.record.hello import SERVER_ID
from patchbay.rooms.rooms import Rooms
from tests.interaction.programs import free_port
from tests.rooms.people import Person, rooms_of


def run(*words: str, **more: str) -> Result:
    return CliRunner().invoke(room, list(words), env=more or None)


@pytest.mark.parametrize("command", LATE)
def test_every_command_has_help_with_an_example(command: str) -> None:
    """ENS-18: each of them says how it is typed."""
    shown = run(command, "--help")
    assert shown.exit_code == 0
    assert f"patchbay room {command} " in shown.output


@pytest.mark.parametrize(
    "text", ["demo", "ftp://127.0.0.1/rooms/demo", "http://127.0.0.1:8000/mcp/demo", "http://me:key@hub/rooms/demo"]
)
def test_an_invalid_address_of_a_room_is_refused_with_an_example(text: str) -> None:
    """ENS-18: a room is always named by its address."""
    with pytest.raises(AddressError, match="expected the address of a room, such as"):
        parse_room_address(text)
    assert run("say", text, "hello").exit_code == exit_codes.USAGE


@pytest.mark.parametrize(
    "words", [["create"], ["say", "hello"], ["call", "fs", "read"], ["join"], ["log"], ["fork", "1", "x"]]
)
def test_a_hub_that_is_not_there_is_a_sentence(words: list[str]) -> None:
    """ENS-18: exit code 4, as for every server that cannot be reached."""
    url = f"http://127.0.0.1:{free_port()}/rooms/demo"
    done = run(words[0], url, *words[1:])
    assert done.exit_code == exit_codes.UNREACHABLE
    assert "cannot be reached: the connection was refused, so no server listens at this port" in done.output


def test_headers_take_secrets_from_the_environment_and_name_what_is_missing() -> None:
    """ENS-18: a hub that asks for a token gets it, and the token is in no command line."""
    url = f"http://127.0.0.1:{free_port()}/rooms/demo"
    assert "SECRET_OF_NOBODY" in run("create", url, "--header", "Authorization: Bearer ${SECRET_OF_NOBODY}").output
    given = run("create", url, "--header", "Authorization: Bearer ${KNOWN}", KNOWN="token")
    assert "cannot be reached" in given.output


@pytest.mark.parametrize(
    ("address", "id"),
    [
        ("@notes", "notes"),
        ("mcp+uvx://mcp-server-time/mcp-server-time", "mcp-server-time"),
        ("mcp+python://./my__server.py", "my-server"),
        ("https://example.org/", "example"),
        ("mcp+stdio:python -m something ./x.py", "x"),
    ],
)
def test_the_id_of_a_server_comes_from_its_address(address: str, id: str) -> None:
    """ENS-2: an id that every room takes."""
    assert default_id(address) == id
    assert SERVER_ID.fullmatch(id)


def test_verify_names_the_first_wrong_entry(tmp_path: Path) -> None:
    """ENS-16: exit code 1 and the seq; a head that is not the last one means that entries are missing."""
    with rooms_of() as rooms:
        assert isinstance(rooms, Rooms)
        made = rooms.create("demo", "alice")
        person = Person(made, "alice")
        for number in range(5):
            person.says("chat.msg", {"text": str(number)})
        lines, head = list(made.lines()), made.head
    good, wrong = tmp_path / "good.ndjson", tmp_path / "wrong.ndjson"
    good.write_bytes(b"\n".join(lines) + b"\n")
    assert run("verify", str(good), "--head", head).exit_code == 0
    wrong.write_bytes(b"\n".join([*lines[:3], lines[4], *lines[5:]]))
    done = run("verify", str(wrong))
    assert done.exit_code == exit_codes.FAILED
    assert "entry 4 is wrong" in done.output
    good.write_bytes(b"\n".join(lines[:-1]))
    assert run("verify", str(good), "--head", head).exit_code == exit_codes.FAILED
    assert run("verify", str(good), "--key", "AAAA").exit_code == exit_codes.FAILED
