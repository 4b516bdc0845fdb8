"""The commands `patchbay enable`, `disable` and `restart`.

They change the store of the data folder, or send a message through it; a running hub follows at once.
"""

from __future__ import annotations

import time
from typing import Any

import click

from patchbay.catalogue.operating.switching import request_restart, switch_server
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import check_known, find_server, opened_catalogue, read_server
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import quote_word
from patchbay.cli.terminal.progress_display import Display
from patchbay.client.errors import Unreachable
from patchbay.errors import ConfigError
from patchbay.exit_codes import GREETER, with_examples
from patchbay.settings import Settings

RESTART_SECONDS = 120.0
"""Seconds that a mounted server may take to answer again; its package may have to be fetched."""


@click.command("enable", epilog=with_examples("patchbay enable bash", "patchbay disable bash"))
@click.argument("name", shell_complete=complete_server)
@with_hub
@click.pass_context
def enable_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Switch the server NAME on. `patchbay disable NAME` undoes this."""
    _switch(context, name, is_on=True)


@click.command("disable", epilog=with_examples("patchbay disable echo", "patchbay enable echo"))
@click.argument("name", shell_complete=complete_server)
@with_hub
@click.pass_context
def disable_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Switch the server NAME off: clients no longer see it. `patchbay enable NAME` undoes this."""
    _switch(context, name, is_on=False)


def _switch(context: click.Context, name: str, is_on: bool) -> None:
    with exit_on_error():
        settings = load_hub_settings(context)
        _check_has_folder(settings)
        hub = find_running_hub(settings)
        word, undo = ("on", "disable") if is_on else ("off", "enable")
        if hub is not None:
            found = read_server(settings, hub, name)
            with opened_store(settings) as store:
                is_changed = switch_server(store, name, found["origin"], found["config"], is_on, CHANGED_BY)
            if not hub.wait_for(name, lambda one: one is None or (one["status"] == "off") != is_on):
                raise ConfigError(name, "", f"the hub did not switch it {word}: start the hub without --enable {name}")
        else:
            with opened_catalogue(settings, is_change=True) as catalogue:
                server = find_server(catalogue, name)
                is_changed = switch_server(catalogue.store, name, server.origin, server.config, is_on, CHANGED_BY)
        if not is_changed:
            click.echo(f"{name} is {word} already.")
            return
        click.echo(f"{name} is switched {word}. Undo: patchbay {undo} {quote_word(name)}")


def _check_has_folder(settings: Settings) -> None:
    if settings.store == "memory":
        raise ConfigError("--store", "", "expected a hub with a data folder; change a hub in memory on its pages")


@click.command("restart", epilog=with_examples("patchbay restart greeter", after=GREETER))
@click.argument("name", shell_complete=complete_server)
@with_hub
@click.pass_context
def restart_command(context: click.Context, /, name: str, **_: Any) -> None:
    """End the processes of the server NAME; the hub starts new ones.

    Calls of a Python server finish first. The program of a mounted server ends at once, and the command waits until the
    server answers again.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        _check_has_folder(settings)
        hub = find_running_hub(settings)
        if hub is None:
            raise Unreachable(f"no hub runs on the data folder {settings.data}: `patchbay serve` starts one")
        before = check_known(hub, name)
        with opened_store(settings) as store:
            request_restart(store, name)
        if before["upstream"] is None or before["status"] != "on":
            click.echo(f"{name} is restarted: its next call starts a new process.")
            return
        with Display().waiting(f"{name} starts"):
            health = _wait_for_answer(hub, name, before["upstream"]["since"])
        if health["state"] != "up":
            raise Unreachable(f"{name} is restarted, but {health['sentence']}")
        click.echo(f"{name} is restarted: {health['sentence']}.")


def _wait_for_answer(hub: RunningHub, name: str, since: float) -> dict[str, Any]:
    """Wait for a new connection of a mounted server; return its health."""
    until = time.monotonic() + RESTART_SECONDS
    while True:
        health: dict[str, Any] = (check_known(hub, name)["upstream"]) or {}
        is_new = health.get("since", 0.0) > since and health["state"] != "connecting"
        if is_new or time.monotonic() > until:
            return health
        time.sleep(0.2)
