"""`patchbay room create`, `list`, `log`, `verify`, `fork` and `remove`."""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import click
import httpx2

from patchbay import exit_codes
from patchbay.cli.commands.rooms.group import ROOM as EXAMPLE
from patchbay.cli.commands.rooms.parts import HEADERS, ROOM, SECONDS, find_own_room, read_headers, request
from patchbay.cli.records.ndjson import parse_object
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import fail, format_rows, write_note
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.rooms.address import RoomAddress
from patchbay.rooms.record.forks import verify_with_past
from patchbay.rooms.record.verification import verify


@click.command("create", epilog=exit_codes.with_examples(f"patchbay room create {EXAMPLE}"))
@click.argument("room", type=ROOM)
@click.option("--policy", metavar="JSON", help="Parts of the room's policy, as a JSON object.")
@HEADERS
def create(room: RoomAddress, policy: str | None, headers: tuple[str, ...]) -> None:
    """Make ROOM. You have every right in it."""
    with exit_on_error():
        options = {"policy": parse_object(policy, "--policy")} if policy is not None else {}
        made = request("PUT", room, room.path, headers, options).json()
        click.echo(f"made {room.url}, id {made['room']}")
        click.echo(f"MCP clients use {room.hub}/mcp/room.{made['name']}")


@click.command("list", epilog=exit_codes.with_examples("patchbay room list", "patchbay room list --json"))
@click.option("--json", "as_json", is_flag=True, help="Print the rooms as JSON.")
@HEADERS
def list_rooms(as_json: bool, headers: tuple[str, ...]) -> None:
    """List the rooms of the running hub: name, members, tools."""
    with exit_on_error():
        hub, found = find_own_room("all"), list[dict[str, Any]]()
        for page in count(1):
            try:
                found += request("GET", hub, f"/rooms.json?page={page}", headers).json()["rooms"]
            except McpFailure:  # the page after the last one is refused
                if page == 1:
                    raise
                break
        if as_json:
            click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        elif not found:
            write_note("This hub has no rooms. Next: patchbay room create demo")
        else:
            rows = [(one["name"], *_numbers(one["numbers"]), one["problem"] or "") for one in found]
            click.echo(format_rows([("NAME", "MEMBERS", "TOOLS", "PROBLEM"), *rows]))


def _numbers(numbers: dict[str, int] | None) -> tuple[str, str]:
    """Return how many members and tools a room has, as texts; empty for a room that shows none."""
    return (str(numbers["members"]), str(numbers["tools"])) if numbers is not None else ("", "")


@click.command(
    "log", epilog=exit_codes.with_examples(f"patchbay room log {EXAMPLE} > demo.ndjson", after=exit_codes.DEMO)
)
@click.argument("room", type=ROOM)
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin after this entry.")
@HEADERS
def log(room: RoomAddress, after: int, headers: tuple[str, ...]) -> None:
    """Write the signed log of ROOM, one entry a line; `patchbay room verify` checks it on any machine."""
    with exit_on_error():
        _write_log(room, after, headers, sys.stdout.buffer)


def _write_log(room: RoomAddress, after: int, headers: tuple[str, ...], into: BinaryIO) -> None:
    """Write the log of a room. Raises McpFailure, Unreachable."""
    url = f"{room.url}/log"
    try:
        with httpx2.stream(
            "GET", url, params={"after": str(after)}, headers=room.add_token(read_headers(headers)), timeout=SECONDS
        ) as answer:
            if answer.status_code >= 400:
                raise McpFailure(answer.status_code, f"{url}: the hub answered with {answer.status_code}")
            for piece in answer.iter_bytes():
                into.write(piece)
            into.flush()
    except httpx2.HTTPError as problem:
        raise Unreachable(f"{url} cannot be reached: {describe_failure(problem, has_answered=False)}") from problem


@click.command(
    "verify",
    epilog=exit_codes.with_examples(
        "patchbay room verify demo.ndjson", after=f"{exit_codes.DEMO} and `patchbay room log demo > demo.ndjson`"
    ),
)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--head",
    metavar="CID",
    help="The expected CID of the last entry. The check fails when entries at the end are missing.",
)
@click.option(
    "--key", metavar="KEY", help="The expected public key of the hub, base64. The check fails for another key."
)
@click.option(
    "--past",
    "pasts",
    multiple=True,
    type=click.File("rb"),
    metavar="FILE",
    help="For a fork: the log of the room that it goes on from. May be repeated for the rooms before that one.",
)
def verify_log(file: BinaryIO, head: str | None, key: str | None, pasts: tuple[BinaryIO, ...]) -> None:
    """Check FILE, a log written by `patchbay room log`: every byte, every signature, the order, the rules.

    Exit code 1 when something is wrong; the first wrong entry is named by its seq. A fork names its predecessor; with
    the log of that room (--past) its past is checked too.
    """
    with exit_on_error():
        found = verify_with_past(file, pasts, head, key) if pasts else verify(file, head, key)
        if not found.ok:
            fail(f"{Path(file.name).name}: entry {found.seq} is wrong: {found.reason}", exit_codes.FAILED)
        summary: dict[str, Any] = {
            "entries": found.entries,
            "withheld": found.withheld,
            "room": found.room,
            "head": found.head,
        }
        if found.predecessor is not None:
            summary |= {"predecessor": found.predecessor, "verified_past": list(found.past)}
        click.echo(json.dumps(summary | {"state": found.state_cid, "key": found.key}))


@click.command("fork", epilog=exit_codes.with_examples(f"patchbay room fork {EXAMPLE} 12 other", after=exit_codes.DEMO))
@click.argument("room", type=ROOM)
@click.argument("seq", type=click.IntRange(min=1))
@click.argument("name")
@HEADERS
def fork(room: RoomAddress, seq: int, name: str, headers: tuple[str, ...]) -> None:
    """Make the room NAME, which goes on from entry SEQ of ROOM with its policy and members."""
    with exit_on_error():
        made = request("POST", room, f"{room.path}/fork", headers, {"seq": seq, "name": name}).json()
        click.echo(f"made {room.hub}/rooms/{made['name']}, id {made['room']}")


@click.command(
    "remove",
    epilog=exit_codes.with_examples(
        "patchbay room remove demo", f"patchbay room remove {EXAMPLE} --log demo.ndjson", after=exit_codes.DEMO
    ),
)
@click.argument("room", type=ROOM)
@click.option(
    "--log", "file", type=click.Path(dir_okay=False, path_type=Path), help="Where its log goes; NAME.ndjson by default."
)
@HEADERS
def remove(room: RoomAddress, file: Path | None, headers: tuple[str, ...]) -> None:
    """Export the log of ROOM to a new file, check it, and delete ROOM with its log.

    Its creator and the operator of the hub may do this. Its members are disconnected. Nothing is deleted when the log
    cannot be written or is wrong, or when somebody has said something meanwhile.
    """
    with exit_on_error():
        target = file or Path(f"{room.name}.ndjson")
        try:
            with target.open("xb") as into:
                _write_log(room, 0, headers, into)
        except FileExistsError:
            fail(f"{target} exists; choose another file with --log", exit_codes.USAGE)
        with target.open("rb") as lines:
            found = verify(lines)
        if not found.ok:
            fail(f"{target}: entry {found.seq} is wrong: {found.reason}; the room is not deleted", exit_codes.FAILED)
        request("DELETE", room, room.path, (f'If-Match: "{found.head}"', *headers))
        withheld = f", {found.withheld} of them withheld" if found.withheld else ""
        click.echo(f"deleted {room.url}; its log is in {target}, {found.entries} entries{withheld}, head {found.head}")
