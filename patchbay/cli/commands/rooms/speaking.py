"""`patchbay room join` and `patchbay room say`."""

from __future__ import annotations

import json
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.commands.rooms.group import ROOM as EXAMPLE
from patchbay.cli.commands.rooms.parts import HEADERS, ROOM, SECONDS, Json, open_room, print_line, until_told
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.client.rooms.address import RoomAddress
from patchbay.client.rooms.connection import RoomLost, RoomRefusal

SHOWN_CHARACTERS = 200


@click.command("join", epilog=exit_codes.with_examples(f"patchbay room join {EXAMPLE}", after=exit_codes.DEMO))
@click.argument("room", type=ROOM)
@click.option("--after", type=click.IntRange(min=0), metavar="SEQ", help="Show the log after this entry first.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", help="What to print [text].")
@HEADERS
def join(room: RoomAddress, after: int | None, style: str, headers: tuple[str, ...]) -> None:
    """Show what happens in ROOM, one line for each event, until Ctrl-C."""
    with until_told():
        connection = open_room(room, ["can.read"], headers, after)
        for envelope in connection.greeting:
            _show(envelope, style)
        while True:
            found = connection.receive(1.0)
            if found is not None:
                _show(found, style)


def _show(envelope: Json, style: str) -> None:
    if style == "json":
        print_line(json.dumps(envelope, ensure_ascii=False))
        return
    place = str(envelope.get("place", "-"))
    print_line(f"{place:>6}  {envelope['type']:<18} {envelope['from'][:12]:<12} {_gist(envelope['payload'])}")


def _gist(payload: Any) -> str:
    text = payload.get("text") if isinstance(payload, dict) else None
    whole = text if isinstance(text, str) else json.dumps(payload, ensure_ascii=False)
    return whole if len(whole) <= SHOWN_CHARACTERS else whole[:SHOWN_CHARACTERS] + "..."


@click.command(
    "say", epilog=exit_codes.with_examples(f'patchbay room say {EXAMPLE} "the build is done"', after=exit_codes.DEMO)
)
@click.argument("room", type=ROOM)
@click.argument("text")
@HEADERS
def say(room: RoomAddress, text: str, headers: tuple[str, ...]) -> None:
    """Post TEXT in ROOM, as `chat.msg`; prints its place in the log."""
    with exit_on_error():
        connection = open_room(room, ["can.speak"], headers)
        id = connection.send_new("chat.msg", {"text": text})
        while True:
            found = connection.receive(SECONDS)
            if found is None:
                raise RoomLost(f"{room.url} did not confirm the message within {SECONDS:g} s")
            if found["id"] == id:
                click.echo(f"entry {found['place']}")
                break
            if found["type"] == "room.refused" and found["payload"].get("id") == id:
                raise RoomRefusal(f"{room.url}: {found['payload']['error']}")
        connection.close()
