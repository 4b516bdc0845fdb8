"""The commands `patchbay install` and `patchbay uninstall`: this hub in the settings file of an MCP client."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.keys import PersonalKeys
from patchbay.cli.commands.clients.choices import (
    check_server,
    complete_client,
    load_reached_settings,
    machine,
)
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import opened_store
from patchbay.cli.options import with_settings_in_help
from patchbay.cli.terminal.messages import fail, format_rows, make_printable, write_note
from patchbay.client.applications.applications import ROWS, Application, find_application
from patchbay.client.applications.changes import Change, write_change
from patchbay.client.applications.entries import Token
from patchbay.client.applications.own_entry import AGGREGATE, make_entry, stdio_command
from patchbay.client.applications.reading import ClientFile, is_own, list_files, read_entries, rules_of_gemini
from patchbay.errors import ConfigError, PatchbayError
from patchbay.serving.hub_url import hub_url
from patchbay.settings import SHARED, Settings
from patchbay.terminal import is_terminal

PLANNED_KEY = "patchbay-key"
"""Stands for a key in a diff, before the key is made; the diff masks it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to install: the entry's name, the server, and how the client reaches it."""

    file: ClientFile
    name: str
    server: str
    url: str
    stdio: bool
    key: str
    key_variable: str

    @property
    def application(self) -> Application:
        """The client."""
        return self.file.application


@click.command(
    "install",
    epilog=exit_codes.with_examples(
        "patchbay install cursor",
        "patchbay install claude-desktop echo",
        "patchbay install codex --key laptop",
        "patchbay install --list",
    ),
)
@click.argument("client", default="", shell_complete=complete_client)
@click.argument("server", default="", shell_complete=complete_server)
@click.option(
    "--list", "only_list", is_flag=True, help="List the clients, their files, and whether this hub is in them."
)
@click.option("--name", default="", help="The name of the entry [default: patchbay, or the name of SERVER].")
@click.option("--stdio", is_flag=True, help="Let the client start the hub as a program, in place of a URL.")
@click.option("--project", is_flag=True, help="Write the file of the project in this folder, such as .mcp.json.")
@click.option("--url", default="", help="The URL of the hub, for a hub behind a proxy.")
@click.option("--key", default="", metavar="NAME", help="Make the personal key NAME and write it into the entry.")
@click.option("--key-variable", default="", metavar="VAR", help="Let the client send the key in its variable VAR.")
@click.option("--replace", is_flag=True, help="Replace the entry of this name even if it is another server.")
@click.option("--dry-run", is_flag=True, help="Show the change and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Write without a question.")
@with_settings_in_help("data", "servers", "host", "port")
@click.pass_context
def install_command(context: click.Context, /, client: str, only_list: bool, **given: Any) -> None:
    """Write this hub into the settings of an MCP client. It has all servers, or one SERVER.

    The command shows the change, asks on a terminal, and makes a backup beside the file. Everything else in the file
    stays as it is, and `patchbay uninstall` takes the entry out again. The URL is that of the hub that runs on the data
    folder, else that of the settings.
    """
    try:
        settings = load_reached_settings(context)
        if only_list or not client:
            _list_clients(settings)
            return
        order = _make_order(settings, find_application(client), given)
        change = _plan(settings, order, given["replace"], PLANNED_KEY)
        _warn_of_rules(order)
        if not change.is_needed and not order.key:
            click.echo(f"{change.path} has this entry already")
            return
        if not _is_agreed(change, given["dry_run"], given["yes"]):
            return
        if order.key:
            change = _plan(settings, order, given["replace"], _make_key(settings, order.key))
        _report(change, write_change(change, bool(order.key)))
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    _tell_next_step(settings, order)


@click.command(
    "uninstall", epilog=exit_codes.with_examples("patchbay uninstall cursor", "patchbay uninstall claude-code echo")
)
@click.argument("client", shell_complete=complete_client)
@click.argument("server", default="", shell_complete=complete_server)
@click.option("--name", default="", help="The name of the entry [default: patchbay, or the name of SERVER].")
@click.option("--project", is_flag=True, help="Change the file of the project in this folder.")
@click.option("--force", is_flag=True, help="Remove the entry even if it is not a hub of this machine.")
@click.option("--dry-run", is_flag=True, help="Show the change and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Write without a question.")
def uninstall_command(
    client: str, server: str, name: str, project: bool, force: bool, dry_run: bool, yes: bool
) -> None:
    """Remove this hub from the settings file of CLIENT. The file is then as it was before `patchbay install`."""
    name = name or server.partition("@")[0] or AGGREGATE
    try:
        file = _find_file(find_application(client), project)
        entry = next((one for one in read_entries(file, machine()) if one.name == name), None)
        if entry is None or name not in file.place.servers():
            own = [one.name for one in read_entries(file, machine()) if is_own(one.target)]
            hint = f"; entries of a hub: {', '.join(own)}" if own else ""
            raise ConfigError(str(file.path), file.application.section, f"expected an entry {name!r}, found none{hint}")
        if not is_own(entry.target) and not force:
            raise ConfigError(
                str(file.path), name, "this entry is not a hub of this machine; --force removes it anyway"
            )
        change = file.place.plan_removal(name)
        if not _is_agreed(change, dry_run, yes):
            return
        _report(change, write_change(change))
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    click.echo(f"{file.application.after}.")


def _make_order(settings: Settings, application: Application, given: dict[str, Any]) -> Order:
    server: str = given["server"]
    if server:
        check_server(settings, server)
    if given["key"] and given["key_variable"]:
        raise ConfigError("--key", "", "expected --key or --key-variable, not both")
    stdio = given["stdio"] or not application.speaks_http
    for option in ("key", "key_variable", "url"):
        if stdio and given[option]:
            raise ConfigError(
                f"--{option.replace('_', '-')}", "", f"{application.title} starts the hub itself here: leave it out"
            )
    if given["key_variable"] and not application.reference:
        raise ConfigError("--key-variable", "", f"{application.title} reads no variables in its file; use --key")
    base = (given["url"] or hub_url(settings)).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ConfigError("--url", "", f"expected a URL such as https://hub.example, got {base!r}")
    url = "" if stdio else f"{base}/mcp" + (f"/{server}" if server else "")
    name = given["name"] or server.partition("@")[0] or AGGREGATE
    file = _find_file(application, given["project"])
    return Order(file, name, server, url, stdio, given["key"], given["key_variable"])


def _find_file(application: Application, project: bool) -> ClientFile:
    files = list_files(application, machine(), Path.cwd())
    chosen = next((file for file in files if bool(file.project) == project), None)
    if chosen is None:
        raise ConfigError("--project", "", f"{application.title} has no file for a project; leave --project out")
    if not project and not application.is_found(machine()):
        missing = application.evidence(machine())
        what = "file" if missing == chosen.path else "folder"
        write_note(f"{application.title} has no {what} {missing} on this machine; is it installed?")
    return chosen


def _warn_of_rules(order: Order) -> None:
    """Say when the rules of Gemini CLI keep it from using the entry."""
    if order.application.name != "gemini":
        return
    for file in list_files(order.application, machine(), Path.cwd()):
        try:
            allowed, excluded = rules_of_gemini(file.form.parse(file.place.decode(file.place.read())[1]))
        except (ConfigError, ValueError):
            continue
        if (allowed and order.name not in allowed) or order.name in excluded:
            rule, change = ("mcp.excluded", "take it out") if order.name in excluded else ("mcp.allowed", "add it")
            write_note(f"Gemini CLI does not use {order.name!r}, because of {rule} in {file.path}: {change} there")


def _plan(settings: Settings, order: Order, replace: bool, key: str) -> Change:
    present = next((one for one in read_entries(order.file, machine()) if one.name == order.name), None)
    if present is not None and not is_own(present.target) and not replace and order.name in order.file.place.servers():
        raise ConfigError(
            str(order.file.path), order.name, "this entry is another server; choose a --name, or --replace it"
        )
    token = Token(key if order.key else "", order.key_variable) if order.key or order.key_variable else None
    command = stdio_command(settings, order.server, local=True)
    return order.file.place.plan_install(
        order.name, make_entry(order.application, order.name, order.url, command, token)
    )


def _is_agreed(change: Change, dry_run: bool, yes: bool) -> bool:
    """Show a change; return whether to write it."""
    click.echo(make_printable(change.diff()), nl=False)
    if dry_run:
        write_note("Nothing is written (--dry-run)")
        return False
    return yes or not is_terminal(sys.stdin) or click.confirm("Write this change?", default=True, err=True)


def _make_key(settings: Settings, name: str) -> str:
    with opened_store(settings, "make its keys on its page /access/keys", is_change=True) as store:
        return PersonalKeys(store).make(name)


def _report(change: Change, backup: Path | None) -> None:
    done = f"Wrote {change.path}" if change.after is not None else f"Deleted {change.path}, which had only this entry"
    click.echo(f"{done}; the backup is {backup}" if backup else done)


def _tell_next_step(settings: Settings, order: Order) -> None:
    click.echo(f"{order.application.after}.")
    if order.stdio:
        click.echo(f"{order.application.title} starts the hub itself.")
        return
    click.echo(f"The client connects to {order.url} while the hub runs (`patchbay serve`).")
    if settings.mode == SHARED and not order.key and not order.key_variable:
        click.echo("The hub asks callers to sign in: the client opens a browser for it (OAuth).")
    if order.key_variable:
        click.echo(f"Set {order.key_variable} to a key in the environment of the client (`patchbay key new NAME`).")


def _list_clients(settings: Settings) -> None:
    """Print the clients with their files, and the names of the entries that are this hub."""
    rows = [("CLIENT", "ENTRIES OF THIS HUB", "FILE")]
    for application in ROWS:
        for file in list_files(application, machine(), Path.cwd()):
            if file.project is not None and not file.path.exists():
                continue
            try:
                own = [one.name for one in read_entries(file, machine()) if is_own(one.target, settings.port)]
                state = ", ".join(own) or "no"
            except ConfigError as problem:
                state = f"unreadable: {problem.expected}"
            found = file.path.exists() or application.is_found(machine())
            rows.append((application.name, state if found else "client not found", str(file.path)))
    click.echo(format_rows(rows))
