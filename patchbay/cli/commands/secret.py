"""The commands `patchbay secret ...`, for the secrets that configurations name as `${NAME}`.

A value comes from a prompt without echo, from standard input or from a file, never from the command line, which other
users of the machine see and the shell remembers. No command prints a value.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.secrets.names import check_name
from patchbay.access.secrets.records import ListedSecret
from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.data_store import CHANGED_BY, errors_as_sentence
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.secret_storing import opened_secrets
from patchbay.cli.terminal.messages import format_rows, write_note
from patchbay.cli.terminal.secret_input import read_secret


@click.group(
    "secret",
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples(
        "patchbay secret set GITHUB_TOKEN --for github",
        "patchbay secret set DEPLOY_KEY ~/.ssh/deploy_key",
        "patchbay secret allow GITHUB_TOKEN tracker",
        "patchbay secret list",
        "patchbay secret rotate GITHUB_TOKEN -",
        "patchbay secret remove GITHUB_TOKEN",
    ),
)
def secret_command() -> None:
    """Store, rotate and remove what configurations name as secrets.

    A secret is sealed with the key of the hub, on all its nodes, and shown nowhere. A change reaches the servers that
    use it at once; running calls end with the earlier value.
    """


@secret_command.command(
    "set",
    epilog=exit_codes.with_examples(
        "patchbay secret set GITHUB_TOKEN --for github,tracker", "patchbay secret set DEPLOY_KEY ~/.ssh/deploy_key"
    ),
)
@click.argument("name")
@click.argument("file", required=False, default="", metavar="[FILE|-]")
@click.option(
    "--for",
    "servers",
    metavar="SERVERS",
    help="Only these servers may name it, comma-separated; empty for all. Without it, an earlier choice stays.",
)
@with_settings_in_help("data", "store", "key_file")
@click.pass_context
def set_command(context: click.Context, /, name: str, file: str, servers: str | None, **_: Any) -> None:
    """Store the secret NAME, in place of an earlier one.

    The value comes from a prompt without echo, from FILE, or from standard input (-), without its last line break.
    """
    chosen = None if servers is None else _split(servers)
    with errors_as_sentence():
        check_name(name)
        value = read_secret(f"Value of {name}", file, f"patchbay secret set {name}")
        with opened_secrets(load_settings(context)) as secrets:
            entry = secrets.put(name, value, CHANGED_BY, chosen)
    write_note(f"{name} is stored for {_describe_servers(entry.servers)}; configurations name it as ${{{name}}}")


@secret_command.command("allow", epilog=exit_codes.with_examples("patchbay secret allow GITHUB_TOKEN tracker"))
@click.argument("name")
@click.argument("added", metavar="SERVERS")
@with_settings_in_help("data", "store", "key_file")
@click.pass_context
def allow_command(context: click.Context, /, name: str, added: str, **_: Any) -> None:
    """Let SERVERS (comma-separated) use the secret NAME too; its value and its other servers stay."""
    with errors_as_sentence():
        check_name(name)
        with opened_secrets(load_settings(context)) as secrets:
            entry = secrets.allow(name, _split(added))
    write_note(f"{name} is for {_describe_servers(entry.servers)}")


@secret_command.command("rotate", epilog=exit_codes.with_examples("patchbay secret rotate GITHUB_TOKEN"))
@click.argument("name")
@click.argument("file", required=False, default="", metavar="[FILE|-]")
@with_settings_in_help("data", "store", "key_file")
@click.pass_context
def rotate_command(context: click.Context, /, name: str, file: str, **_: Any) -> None:
    """Give the secret NAME a new value, for the same servers. It refuses an unknown name, and the present value."""
    with errors_as_sentence():
        check_name(name)
        value = read_secret(f"Value of {name}", file, f"patchbay secret rotate {name}")
        with opened_secrets(load_settings(context)) as secrets:
            entry = secrets.put(name, value, CHANGED_BY, is_known=True)
    write_note(f"{name} has a new value; {_describe_servers(entry.servers)} connect anew where they use it")


@secret_command.command("list", epilog=exit_codes.with_examples("patchbay secret list"))
@with_settings_in_help("data", "store", "key_file")
@click.pass_context
def list_command(context: click.Context, /, **_: Any) -> None:
    """List the secrets without their values: name, servers, when it was stored, which servers used it, and when."""
    with errors_as_sentence(), opened_secrets(load_settings(context)) as secrets:
        rows = [("NAME", "FOR", "SINCE", "USED BY", "LAST USED"), *(_row(one) for one in secrets.all())]
    click.echo(format_rows(rows))


@secret_command.command("remove", epilog=exit_codes.with_examples("patchbay secret remove GITHUB_TOKEN"))
@click.argument("name")
@with_settings_in_help("data", "store", "key_file")
@click.pass_context
def remove_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Delete the secret NAME. Servers that need it do not start any more."""
    with errors_as_sentence(), opened_secrets(load_settings(context)) as secrets:
        secrets.remove(name)
    write_note(f"{name} is removed")


def _split(servers: str) -> list[str]:
    return [one.strip() for one in servers.split(",") if one.strip()]


def _row(one: ListedSecret) -> tuple[str, ...]:
    since = _date(one.entry.changed) if one.is_readable else "not readable: stored with another key"
    used = ", ".join(sorted(one.uses)) or "-"
    return one.entry.name, ", ".join(one.entry.servers) or "all", since, used, _date(one.last_use)


def _describe_servers(servers: tuple[str, ...]) -> str:
    return ", ".join(servers) if servers else "all servers"


def _date(at: float | None) -> str:
    return "not yet" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
