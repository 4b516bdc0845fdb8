"""The commands `patchbay remove` and `patchbay restore`."""

from __future__ import annotations

import sys
from typing import Any

import click

from patchbay.catalogue.operating.removal import Removal, find_files, remove_server, restore_server
from patchbay.cli.completion.values import complete_removed, complete_server
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import check_known, check_name, opened_catalogue
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import quote_word
from patchbay.errors import ConfigError, InvalidParams
from patchbay.exit_codes import GREETER, with_examples
from patchbay.settings import Settings
from patchbay.terminal import is_terminal


@click.command(
    "remove",
    epilog=with_examples(
        "patchbay remove greeter", "patchbay remove greeter --yes", "patchbay restore greeter", after=GREETER
    ),
)
@click.argument("name", shell_complete=complete_server)
@click.option("--yes", is_flag=True, help="Do not ask; a command without a terminal needs this.")
@with_hub
@click.pass_context
def remove_command(context: click.Context, /, name: str, yes: bool, **_: Any) -> None:
    """Remove the server NAME. `patchbay restore NAME` undoes this.

    Its files move into the folder `.deleted` of the servers folder. When the file replaced a shipped server, that one
    is served again.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        hub = find_running_hub(settings)
        _check_known(settings, hub, name)
        _confirm(name, yes)
        done = _change(settings, hub, name, is_removal=True)
        again = hub is not None and hub.servers().get(name) is not None
        click.echo(_describe(name, done) + f" Undo: patchbay restore {quote_word(name)}")
        if again:
            click.echo(
                f"The shipped server {name} is served again: `patchbay disable {quote_word(name)}` switches it off."
            )


@click.command(
    "restore", epilog=with_examples("patchbay restore greeter", after=f"{GREETER} and `patchbay remove greeter`")
)
@click.argument("name", shell_complete=complete_removed)
@with_hub
@click.pass_context
def restore_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Bring back the removed server NAME."""
    with exit_on_error():
        settings = load_hub_settings(context)
        done = _change(settings, find_running_hub(settings), name, is_removal=False)
        place = f": {done.files[0]}" if done.files else ""
        click.echo(f"{name} is restored{place}. Undo: patchbay remove {quote_word(name)}")


def _check_known(settings: Settings, hub: RunningHub | None, name: str) -> None:
    """Raise UnknownServer with similar names before the command asks anything."""
    if hub is not None:
        if not find_files(settings.servers, name):
            check_known(hub, name)
        return
    check_name(settings, name)


def _confirm(name: str, yes: bool) -> None:
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise InvalidParams(f"{name} was not removed: without a terminal add --yes")
    if not click.confirm(f"Remove {name}? (patchbay restore {quote_word(name)} brings it back)", err=True):
        raise InvalidParams(f"{name} was not removed")


def _change(settings: Settings, hub: RunningHub | None, name: str, is_removal: bool) -> Removal:
    if settings.store == "memory":
        raise ConfigError("--store", "", "expected a hub with a data folder; change a hub in memory on its pages")
    if hub is None:
        with opened_catalogue(settings, is_change=True) as catalogue:
            change = remove_server if is_removal else restore_server
            done = change(catalogue.store, settings.servers, name, CHANGED_BY)
            catalogue.read_folder()
            return done
    before = hub.servers().get(name)
    with opened_store(settings) as store:
        change = remove_server if is_removal else restore_server
        done = change(store, settings.servers, name, CHANGED_BY)
    hub.wait_for(name, lambda one: _version(one) != _version(before))
    return done


def _version(summary: dict[str, Any] | None) -> str | None:
    return summary["version"] if summary is not None else None


def _describe(name: str, done: Removal) -> str:
    if not done.files:
        return f"{name} is removed."
    return f"{name} is removed: its files are in {done.files[0].parent}."
