"""The commands `patchbay account ...`: keys of the operator, or of a personal key, at mounted servers.

A running hub stores them: it knows the server, and its processes use the key at once. No command prints a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import click

from patchbay import exit_codes
from patchbay.caller_accounts.credentials import KEY, PAGE
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import errors_as_sentence
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.running_hub import RunningHub, find_running_hub
from patchbay.cli.terminal.messages import fail, format_rows, write_note
from patchbay.cli.terminal.secret_input import read_secret

TRACKER = "`patchbay mount tracker https://tracker.example/mcp` with `account` in its configuration"

WHOSE = click.option(
    "--for",
    "principal",
    default="",
    metavar="key:NAME",
    help="The personal key whose calls use it [default: the operator; on a personal hub, all callers].",
)


@click.group(
    "account",
    epilog=exit_codes.with_examples(
        "patchbay account set tracker", "patchbay account list", "patchbay account remove tracker", after=TRACKER
    ),
)
def account_group() -> None:
    """Store your own keys at mounted servers.

    They are for servers with "account": "caller" and "way": "key", sealed with the key of the hub, and shown nowhere.
    People store theirs on the page /upstreams of the hub.
    """


@account_group.command(
    "set",
    epilog=exit_codes.with_examples(
        "patchbay account set tracker",
        "patchbay account set tracker ~/.config/tracker.key --for key:robot",
        after=TRACKER,
    ),
)
@click.argument("server", shell_complete=complete_server)
@click.argument("file", required=False, default="", metavar="[FILE|-]")
@WHOSE
@with_settings_in_help("data")
@click.pass_context
def set_command(context: click.Context, /, server: str, file: str, principal: str, **_: Any) -> None:
    """Store a key at the mounted SERVER, in place of an earlier one.

    The value comes from a prompt without echo, from FILE, or from standard input (-), without its last line break.
    """
    with _hub(context) as hub:
        found = _find(hub, server, principal)
        fields = found["fields"]
        if found["way"] != KEY:
            fail(f"{server} takes no key: connect the account at {hub.address_of(found['page'])}", exit_codes.USAGE)
        if file and len(fields) > 1:
            names = ", ".join(one["label"] for one in fields)
            fail(
                f"{server} wants {len(fields)} values ({names}): expected no file; they are asked for", exit_codes.USAGE
            )
        command = f"patchbay account set {server}"
        values = {f"value.{one['name']}": read_secret(one["label"], file, command, one["is_secret"]) for one in fields}
        hub.post(_path(server), {"do": "connect", "for": principal, **values})
    write_note(f"the key at {server} is stored for {principal or 'your own calls'}")


@account_group.command("list", epilog=exit_codes.with_examples("patchbay account list"))
@WHOSE
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, principal: str, **_: Any) -> None:
    """List the servers that want an account of each caller, and which of them have one."""
    with _hub(context) as hub:
        servers = (hub.get(f"{PAGE}?{urlencode({'for': principal})}") or {"servers": []})["servers"]
    click.echo(format_rows([("SERVER", "AT", "WAY", "ACCOUNT"), *(_row(one) for one in servers)]))


@account_group.command("remove", epilog=exit_codes.with_examples("patchbay account remove tracker", after=TRACKER))
@click.argument("server", shell_complete=complete_server)
@WHOSE
@with_settings_in_help("data")
@click.pass_context
def remove_command(context: click.Context, /, server: str, principal: str, **_: Any) -> None:
    """Disconnect the account at the mounted SERVER: what uses it ends at once."""
    with _hub(context) as hub:
        account = _find(hub, server, principal)["account"]
        if account is None:
            fail(f"there is no account at {server}: `patchbay account list` shows all", exit_codes.USAGE)
        hub.post(_path(server), {"do": "disconnect", "for": principal, "id": account["id"]})
    write_note(f"the account at {server} is disconnected")


@contextmanager
def _hub(context: click.Context) -> Iterator[RunningHub]:
    """Find the running hub. An error ends the process with an exit code and one sentence."""
    with errors_as_sentence():
        hub = find_running_hub(load_settings(context))
        if hub is None:
            fail("no hub runs on this data folder: `patchbay serve` starts one", exit_codes.UNREACHABLE)
        yield hub


def _find(hub: RunningHub, server: str, principal: str) -> dict[str, Any]:
    """Return what the hub says of the account at a server. Ends the process for a server without accounts."""
    found: dict[str, Any] | None = hub.get(f"{_path(server)}?{urlencode({'for': principal})}")
    if found is None:
        fail(f"{server} wants no account of its callers: `patchbay account list` shows those that do", exit_codes.USAGE)
    return found


def _path(server: str) -> str:
    return f"{PAGE}/{quote(server, safe='')}"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    account = one["account"]
    if account is None:
        return one["server"], one["label"], one["way"], "-"
    since = datetime.fromtimestamp(account["at"], UTC).strftime("%Y-%m-%d %H:%M")
    return one["server"], one["label"], one["way"], f"refused, since {since}" if account["refused_at"] else since
