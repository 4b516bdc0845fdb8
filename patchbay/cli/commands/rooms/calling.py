"""`patchbay room call` and `patchbay room mount`."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import click

from patchbay import exit_codes
from patchbay.cli.client_session import NAME_VALUE
from patchbay.cli.commands.rooms.group import ROOM as EXAMPLE
from patchbay.cli.commands.rooms.parts import HEADERS, ROOM, SECONDS, Json, open_room, print_line, until_told
from patchbay.cli.records.ndjson import parse_object
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import fail, make_printable, write_note
from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.errors import Unreachable
from patchbay.client.rooms.address import RoomAddress
from patchbay.client.rooms.connection import NEW, RoomConnection, RoomLost, RoomRefusal, make_envelope

TTL_SECONDS = 60.0
GRACE_SECONDS = 10.0
"""How much longer than its time a call is waited for."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 8.0
"""Waits before the connection of a call is opened again: the first one, and the longest."""


@click.command(
    "call",
    epilog=exit_codes.with_examples(
        f"patchbay room call {EXAMPLE} time get_current_time timezone=UTC",
        after=f"{exit_codes.DEMO} and `patchbay room announce demo"
        " mcp+uvx://mcp-server-time/mcp-server-time --as time`",
    ),
)
@click.argument("room", type=ROOM)
@click.argument("server")
@click.argument("tool")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1, type=NAME_VALUE)
@click.option("--args", "exact", metavar="JSON", help="Arguments as one JSON object; its values stay as they are.")
@click.option(
    "--ttl",
    type=click.FloatRange(min=0.001),
    default=TTL_SECONDS,
    metavar="SECONDS",
    help="Time limit of the call [60].",
)
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", help="What to print [text].")
@click.option("--text", "style", flag_value="text", help="Print texts as text, as without this option.")
@HEADERS
def call(
    room: RoomAddress,
    server: str,
    tool: str,
    pairs: tuple[tuple[str, str], ...],
    exact: str | None,
    ttl: float,
    style: str,
    headers: tuple[str, ...],
) -> None:
    """Call TOOL of SERVER in ROOM. Progress goes to standard error; Ctrl-C cancels the call.

    When the connection is lost, the call goes on; the command connects again and waits for its result.
    """
    with exit_on_error():
        given: dict[str, str | list[str]] = dict(pairs)
        fixed = parse_object(exact, "--args") if exact is not None else {}
        connection = open_room(room, ["tool.call"], headers, resume=NEW)
        arguments = coerce_arguments(given, _schema(connection, server, tool)) | fixed
        id = str(uuid4())
        payload: Json = {"callId": id, "provider": "mcp", "serverId": server, "name": tool, "args": arguments}
        waiting = _WaitingCall(connection, payload | {"ttlMs": max(1, round(ttl * 1000))}, headers)
        try:
            result = waiting.result(ttl + GRACE_SECONDS)
        except KeyboardInterrupt:
            waiting.connection.send_new("tool.cancel", {"callId": id, "reason": "interrupted"})
            waiting.connection.close()
            raise
        waiting.connection.close()
        _print(result, style)
        if not result["ok"]:
            fail(str(result.get("error") or "the call failed"), exit_codes.FAILED)


def _schema(connection: RoomConnection, server: str, tool: str) -> Any:
    tools = connection.adverts.get(server, {}).get("tools", [])
    return next((one.get("inputSchema") for one in tools if one.get("name") == tool), None)


class _WaitingCall:
    """A call, sent at once. `connection` is the present one: a lost one is opened again, for the same session."""

    def __init__(self, connection: RoomConnection, payload: Json, headers: tuple[str, ...]) -> None:
        self.connection = connection
        self._call = make_envelope("tool.call", payload)
        self._headers = headers
        connection.send(self._call)

    def result(self, seconds: float) -> Json:
        """Wait for the payload of the result, and show progress. Raises RoomLost, RoomRefusal."""
        give_up = time.monotonic() + seconds
        while True:
            left = give_up - time.monotonic()
            try:
                found = self.connection.receive(max(0.0, left))
            except RoomLost as problem:
                self._connect_again(give_up, problem)
                continue
            if found is None:
                raise RoomLost(f"{self.connection.room.url} gave no result within {seconds:g} s")
            payload: Json = found["payload"]
            if payload.get("callId") != self._call["payload"]["callId"]:
                continue
            if found["type"] == "tool.partial":
                write_note(_words(payload.get("partial")))
            elif found["type"] == "tool.result":
                return payload

    def _connect_again(self, give_up: float, problem: RoomLost) -> None:
        """Open the session's connection again and read on. Raises RoomLost when the time is over."""
        lost, pause = self.connection, FIRST_RETRY_SECONDS
        lost.close()
        while time.monotonic() + pause < give_up:
            write_note(f"{problem.message}; trying again in {pause:g} s")
            time.sleep(pause)
            try:
                self.connection = open_room(lost.room, ["tool.call"], self._headers, lost.place, lost.session)
                if self.connection.session == lost.session:
                    self.connection.send(self._call)  # it may not have arrived; the log has it once
            except Unreachable:
                pause = min(2 * pause, MAX_RETRY_SECONDS)
            else:
                return
        raise problem


def _words(partial: Any) -> str:
    if isinstance(partial, dict) and "progress" in partial and partial.get("type") != "text":
        total = f" of {partial['total']:g}" if "total" in partial else ""
        return f"{partial['progress']:g}{total} {partial.get('message') or ''}".rstrip()
    text = partial.get("text") if isinstance(partial, dict) else None
    return text if isinstance(text, str) else json.dumps(partial, ensure_ascii=False)


def _print(payload: Json, style: str) -> None:
    result = payload.get("result")
    if style == "json":
        click.echo(json.dumps(payload, ensure_ascii=False, indent=2))
        return
    if not payload["ok"]:
        return  # its error is on standard error
    blocks = result.get("content") if isinstance(result, dict) else None
    if not isinstance(blocks, list):
        if result is not None:
            click.echo(json.dumps(result, ensure_ascii=False))
        return
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) else None
        click.echo(make_printable(text) if isinstance(text, str) else json.dumps(block, ensure_ascii=False))


@click.command(
    "mount",
    epilog=exit_codes.with_examples(
        f"patchbay room mount {EXAMPLE} docs https://mcp.example/mcp", after=exit_codes.DEMO
    ),
)
@click.argument("room", type=ROOM)
@click.argument("id")
@click.argument("url")
@click.option("--tools", "patterns", multiple=True, metavar="PATTERN", help="Show only tools that match; repeatable.")
@click.option("--credentials", metavar="NAME", help="Credentials that the operator of the hub keeps under this name.")
@HEADERS
def mount(
    room: RoomAddress, id: str, url: str, patterns: tuple[str, ...], credentials: str | None, headers: tuple[str, ...]
) -> None:
    """Mount the MCP server at URL in ROOM as ID. The hub reaches it; it stays as long as this command runs."""
    with until_told():
        connection = open_room(room, ["mcp.client", "tool.call"], headers)
        payload: Json = {"serverId": id, "transport": {"kind": "http-stream", "url": url}, "exposeResources": ["*"]}
        payload |= {"exposeTools": list(patterns) or True} | ({"credentials": credentials} if credentials else {})
        connection.send_new("mcp.mount", payload)
        is_mounted = False
        while True:
            found = connection.receive(None if is_mounted else SECONDS)
            if found is None:
                raise RoomLost(f"{room.url} did not mount {url} within {SECONDS:g} s")
            about = found["payload"]
            if about.get("serverId") == id and found["type"] == "mcp.mount.failed":
                raise RoomRefusal(f"{room.url}: {about['error']}")
            if found["type"] == "mcp.replaced" and about.get("session") == connection.session:
                raise RoomRefusal(f"another session shares {id} in {room.url} now; this one has stopped sharing it")
            if about.get("serverId") == id and found["type"] == "tool.advertise":
                is_mounted = True
                print_line(f"{id} is mounted in {room.url}: {', '.join(one['name'] for one in about['tools'])}")
