"""What the commands of rooms share: the room as an argument, headers, and requests to its hub."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from string import Template
from typing import Any

import click
import httpx2
from click.shell_completion import CompletionItem

import patchbay
from patchbay.cli.completion.values import complete_room
from patchbay.cli.running_hub import find_running_hub
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import make_printable
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.rooms.address import RoomAddress, is_room_name, parse_room_address
from patchbay.client.rooms.connection import RoomConnection
from patchbay.errors import ConfigError, PatchbayError
from patchbay.settings import Settings, whole_environment

SECONDS = 60.0
"""How long a hub may take for an answer."""

Json = dict[str, Any]


class RoomType(click.ParamType[RoomAddress]):
    """The address of a room, or the name of a room of the running hub."""

    name = "ROOM"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RoomAddress:
        """Parse an address, or find the running hub for the name of a room."""
        if isinstance(value, RoomAddress):
            return value
        try:
            if is_room_name(str(value)):
                return find_own_room(str(value))
            return parse_room_address(str(value))
        except PatchbayError as problem:
            self.fail(problem.message, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a room of the running hub, except for a command that makes one."""
        return complete_room(ctx, param, incomplete) if ctx.info_name != "create" else []


def find_own_room(name: str) -> RoomAddress:
    """Return a room of the hub that runs on the data folder, to be reached as its operator.

    Raises Unreachable without a running hub, ConfigError for wrong settings.
    """
    settings = Settings.load()
    hub = find_running_hub(settings)
    if hub is None:
        raise Unreachable(
            f"the room {name} is one of the running hub, and no hub runs on the data folder {settings.data}: start it"
            " (`patchbay serve`), or give the address of the room, such as http://127.0.0.1:8000/rooms/demo"
        )
    return RoomAddress(hub.url, name, hub.token())


ROOM = RoomType()

HEADERS = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="Send this HTTP header to the hub; secrets as ${NAME} from the environment.",
)


def read_headers(given: tuple[str, ...]) -> dict[str, str]:
    """Return headers with variables of the environment put in. Raises ConfigError."""
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        try:
            found[name.strip()] = Template(value.strip()).substitute(whole_environment())
        except (KeyError, ValueError) as problem:
            raise ConfigError("--header", "", f"expected a variable of the environment: {problem}") from problem
        if not colon or not name.strip():
            raise ConfigError("--header", "", "expected NAME:VALUE")
    return found


def open_room(
    room: RoomAddress, caps: list[str], headers: tuple[str, ...] = (), after: int | None = None, resume: str = ""
) -> RoomConnection:
    """Join a room as this program, or go on with a session. Raises Unreachable, RoomRefusal, ConfigError."""
    agent = {"name": f"patchbay on {os.uname().nodename}"[:200], "version": patchbay.__version__}
    return RoomConnection.open(room, caps, agent, after, room.add_token(read_headers(headers)), resume)


def request(
    method: str, room: RoomAddress, path: str, headers: tuple[str, ...], body: Json | None = None
) -> httpx2.Response:
    """Send a request to the hub of a room, to a path below the hub's address.

    Raises McpFailure with the hub's sentence, Unreachable.
    """
    url, fixed = room.hub + path, room.add_token(read_headers(headers))
    try:
        answer = httpx2.request(method, url, json=body, headers=fixed, timeout=SECONDS)
    except httpx2.HTTPError as problem:
        raise Unreachable(f"{url} cannot be reached: {describe_failure(problem, has_answered=False)}") from problem
    if answer.status_code >= 400:
        raise McpFailure(answer.status_code, f"{url}: {_sentence(answer)}")
    return answer


def _sentence(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the hub answered with {answer.status_code}"


@contextmanager
def until_told() -> Iterator[None]:
    """Run until Ctrl-C or SIGTERM, which are the ordinary end; other problems end as those of every command."""
    signal.signal(signal.SIGTERM, _interrupt)
    with exit_on_error():
        try:
            yield
        except KeyboardInterrupt:
            return


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def print_line(sentence: str) -> None:
    """Write one line on standard output, at once."""
    click.echo(make_printable(sentence.replace("\n", " ")))
    sys.stdout.flush()
