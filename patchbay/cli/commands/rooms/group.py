"""The group `patchbay room`. A command takes a room of the running hub by its name, any other by its address."""

from __future__ import annotations

import click

from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.terminal.messages import LateCommand, LateCommandGroup
from patchbay.exit_codes import with_examples

ROOM = "http://127.0.0.1:8000/rooms/demo"

LATE = {
    "create": LateCommand("patchbay.cli.commands.rooms.records:create", "Make ROOM."),
    "list": LateCommand("patchbay.cli.commands.rooms.records:list_rooms", "List the rooms of the running hub."),
    "join": LateCommand("patchbay.cli.commands.rooms.speaking:join", "Show what happens in ROOM, until Ctrl-C."),
    "say": LateCommand("patchbay.cli.commands.rooms.speaking:say", "Post TEXT in ROOM."),
    "call": LateCommand("patchbay.cli.commands.rooms.calling:call", "Call TOOL of SERVER in ROOM."),
    "mount": LateCommand(
        "patchbay.cli.commands.rooms.calling:mount", "Mount the MCP server at URL in ROOM as ID, until Ctrl-C."
    ),
    "announce": LateCommand(
        "patchbay.cli.commands.rooms.announcing:announce",
        "Share the server at ADDRESS, which runs on this machine, in ROOM, until Ctrl-C.",
    ),
    "log": LateCommand("patchbay.cli.commands.rooms.records:log", "Write the signed log of ROOM."),
    "verify": LateCommand(
        "patchbay.cli.commands.rooms.records:verify_log", "Check a log: every byte, every signature, the order."
    ),
    "remove": LateCommand("patchbay.cli.commands.rooms.records:remove", "Export the log of ROOM, and delete ROOM."),
    "fork": LateCommand("patchbay.cli.commands.rooms.records:fork", "Make the room NAME go on from entry SEQ of ROOM."),
}


@click.group(
    "room",
    cls=LateCommandGroup,
    late=LATE,
    context_settings=CONTEXT,
    epilog=with_examples(
        "patchbay room create demo",
        "patchbay room list",
        f'patchbay room announce {ROOM} "mcp+uvx://mcp-server-time/mcp-server-time" --as time',
        f"patchbay room call {ROOM} time get_current_time timezone=UTC",
        f"patchbay room log {ROOM} > demo.ndjson",
        "patchbay room verify demo.ndjson",
        "patchbay room remove demo",
    ),
)
def room() -> None:
    """Rooms: share MCP servers with people and agents of a hub.

    ROOM is an address, or the name of a room of the hub that runs on the data folder (the variable PATCHBAY_DATA names
    another folder).
    """
