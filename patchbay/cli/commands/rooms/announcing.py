"""`patchbay room announce`: servers of this machine for rooms of another hub, until Ctrl-C."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

import patchbay
from patchbay import exit_codes
from patchbay.cli.client_session import NAME_VALUE, ClientSession, open_session
from patchbay.cli.commands.rooms.group import ROOM as EXAMPLE
from patchbay.cli.commands.rooms.parts import HEADERS, ROOM, Json, print_line, read_headers, until_told
from patchbay.cli.completion.values import complete_address
from patchbay.cli.programs.rights import take_permissions, with_program_rights
from patchbay.cli.terminal.messages import make_printable
from patchbay.cli.typed_addresses import complete_reference
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.resolution import resolve_address
from patchbay.client.addresses.targets import AddressError, Target
from patchbay.client.rooms.address import RoomAddress
from patchbay.client.rooms.announcer import Announcer, run_all
from patchbay.client.rooms.hosted_server import HostedServer, default_id
from patchbay.errors import PatchbayError

CHANGED = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))


class Screen:
    """What the person at this machine sees; with `ask`, each call waits for yes or no."""

    def __init__(self, ask: bool) -> None:
        self._ask = ask
        self._lock = threading.Lock()

    def report(self, sentence: str) -> None:
        """Write one line."""
        with self._lock:
            print_line(sentence)

    def allows(self, room: RoomAddress, caller: str, server: str, tool: str, arguments: Json) -> bool:
        """Ask for yes or no, one call after the other."""
        if not self._ask:
            return True
        with self._lock:
            question = make_printable(f"allow {caller} of {room.url} to call {server}.{tool} {arguments}?")
            return click.confirm(question.replace("\n", " "), default=False)


@click.command(
    "announce",
    epilog=exit_codes.with_examples(
        f'patchbay room announce {EXAMPLE} "mcp+uvx://mcp-server-time/mcp-server-time" --as time',
        f"patchbay room announce {EXAMPLE} /mcp/echo --ask",
        f"patchbay room announce {EXAMPLE} /mcp/echo --server jq=/mcp/jq",
        after=exit_codes.DEMO,
    ),
)
@click.argument("room", type=ROOM)
@click.argument("address", shell_complete=complete_address)
@click.option("--as", "id", metavar="ID", help="The server's id in the room [from the address].")
@click.option("--server", "more", type=NAME_VALUE, multiple=True, metavar="ID=ADDRESS", help="Share this server too.")
@click.option("--room", "rooms", type=ROOM, multiple=True, metavar="ROOM", help="Share in this room too; repeatable.")
@click.option("--ask", is_flag=True, help="Ask in this terminal before each call.")
@HEADERS
@with_program_rights
def announce(
    room: RoomAddress,
    address: str,
    id: str | None,
    more: tuple[tuple[str, str], ...],
    rooms: tuple[RoomAddress, ...],
    ask: bool,
    headers: tuple[str, ...],
    **rights: Any,
) -> None:
    """Share the server at ADDRESS, which runs on this machine, in ROOM, until Ctrl-C.

    Members of the room and MCP clients of its hub call its tools. Nothing listens here: this command connects to the
    hub, and connects again when the connection is lost. Each call is shown with who makes it.
    """
    wanted = [(id or default_id(address), address), *more]
    announcers: list[Announcer] = []

    def changed(method: str, _: Mapping[str, Any]) -> None:
        if method in CHANGED:
            for one in announcers:
                one.refresh()

    session = open_session(listener=changed, permissions=take_permissions(rights))
    with until_told(), session as work, ExitStack() as stack:
        servers = [HostedServer(name, _target(text, work), work.context.connections.get) for name, text in wanted]
        if len({server.id for server in servers}) < len(servers):
            raise AddressError(
                "two servers would have the same id; give each its own with --as and --server ID=ADDRESS"
            )
        screen, agent = (
            Screen(ask),
            {"name": f"patchbay on {os.uname().nodename}"[:200], "version": patchbay.__version__},
        )
        for server in servers:
            stack.enter_context(_watched(server, work))
        fixed = read_headers(headers)
        announcers += [
            Announcer(one, servers, screen, agent, one.add_token(fixed)) for one in dict.fromkeys((room, *rooms))
        ]
        _serve(announcers)


def _target(text: str, work: ClientSession) -> Target:
    address = parse_address(complete_reference(_of_file(text), work.context.list_servers))
    return resolve_address(address, work.context.get_profiles(), work.context.environ).target


def _of_file(text: str) -> str:
    """Return the address of a definition file, which the hub's own program serves; another address as it is."""
    path = Path(text)
    if path.suffix != ".py" or not path.is_file():
        return text
    words = f"patchbay stdio {path.stem} --servers {path.resolve().parent} --store memory"
    return f"mcp+stdio:{words}"


@contextmanager
def _watched(server: HostedServer, work: ClientSession) -> Iterator[None]:
    """Open a server, and subscribe to changes of its tools where that needs a subscription."""
    connection = work.context.connections.get(server.target)
    tools = connection.capabilities.get("tools")
    if connection.modern and isinstance(tools, Mapping) and tools.get("listChanged"):
        with connection.listen(["tools"]):
            yield
    else:
        yield


def _serve(announcers: list[Announcer]) -> None:
    """Run announcers until they end or this program is told to; raises what ended one of them."""
    problems: list[PatchbayError] = []
    threads = run_all(announcers, problems.append)
    try:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.2)
    finally:
        for one in announcers:
            one.stop()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]
