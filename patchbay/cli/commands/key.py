"""The commands `patchbay key`: personal keys of a shared hub (`new`, `list`, `revoke`), and its own key (`replace`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

import click

from patchbay import exit_codes
from patchbay.access.grant_matches import Entries, describe_unmatched, entry_finder
from patchbay.access.keys import Key, PersonalKeys, parse_expiry
from patchbay.access.secrets.records import list_names
from patchbay.access.stored_key_id import find_problem, replace_key
from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.completion.values import complete_key
from patchbay.cli.data_store import errors_as_sentence, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import opened_catalogue
from patchbay.cli.terminal.messages import fail, format_rows, write_note
from patchbay.errors import PatchbayError
from patchbay.settings import OPEN, PERSONAL, Settings
from patchbay.store import Store
from patchbay.stores.folder_lock import claim_folder
from patchbay.terminal import is_terminal
from patchbay.topics import ROOMS

MODE_NOTES = {
    PERSONAL: "is personal: every request from this machine is `local`, with or without a key",
    OPEN: "is open: every request is allowed without a key",
}
"""What a key changes nothing about in each mode; in shared mode keys count."""

NEXT_NOTE = "`patchbay serve --access shared` starts a hub on which keys count"

WITHOUT_FOLDER = "make its keys on its page /access/keys"


@click.group(
    "key",
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples(
        "patchbay key new ann-laptop --expires 90d",
        "patchbay key new robot --grants 'call:echo.*,read:echo'",
        "patchbay key list",
        "patchbay key usage",
        "patchbay key revoke ann-laptop",
        "patchbay key replace",
    ),
)
def key_command() -> None:
    """Make, list and revoke personal keys, and show what callers use.

    A request with `Authorization: Bearer KEY` is of `key:NAME`.

    `key replace` is about the hub's own key.
    """


@key_command.command(
    "new", epilog=exit_codes.with_examples("patchbay key new robot --expires 90d --grants 'call:echo.*,read:echo'")
)
@click.argument("name")
@click.option("--expires", metavar="WHEN", help="When the key ends: 90d, 12h, or a date such as 2027-01-31.")
@click.option(
    "--grants",
    metavar="LIST",
    help="Allow only these: see, call, read, or ACTION:PATTERN such as call:echo.*; comma-separated.",
)
@with_settings_in_help("data")
@click.pass_context
def new_command(context: click.Context, /, name: str, expires: str | None, grants: str | None, **_: Any) -> None:
    """Make the key NAME and print it, alone, on standard output. The hub stores its hash: it cannot show it again."""
    with open_keys(context) as keys:
        scopes = split_grants(grants)
        token = keys.make(name, parse_expiry(expires, keys.now()), scopes)
    click.echo(token)
    write_key_notes(context, scopes)


def split_grants(text: str | None) -> list[str] | None:
    """Return the parts of the option `--grants`; None without it."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def write_key_notes(context: click.Context, scopes: list[str] | None) -> None:
    """Say what a new key does not do: on a hub that is not shared, and with grants that match nothing now."""
    settings = load_hub_settings(context)
    hub = find_running_hub(settings)
    _write_mode(settings, hub)
    if scopes:
        _write_unmatched(settings, hub, scopes)


def _write_mode(settings: Settings, hub: RunningHub | None) -> None:
    """Say that keys change nothing, on the running hub or, without one, on a hub that starts with these settings."""
    mode = hub.mode if hub is not None else settings.mode
    if mode in MODE_NOTES:
        which = f"the hub at {hub.url}" if hub is not None else "a hub that starts with these settings"
        write_note(f"note: {which} {MODE_NOTES[mode]}; {NEXT_NOTE}")


def _write_unmatched(settings: Settings, hub: RunningHub | None, scopes: list[str]) -> None:
    """Warn about grants that match nothing now. Without an answer of the hub there is no warning: the key is made."""
    with suppress(PatchbayError, OSError):
        if hub is not None:
            found = describe_unmatched(scopes, list(hub.servers()), partial(_ask_entries, hub))
        else:
            with opened_catalogue(settings) as catalogue:
                names = [server.name for server in catalogue.all()]
                found = describe_unmatched(scopes, names, entry_finder(catalogue))
        for sentence in found:
            write_note(f"warning: {sentence}")


def _ask_entries(hub: RunningHub, name: str) -> Entries | None:
    """Return the entries of a server of the running hub; None when it has none now. Raises Unreachable."""
    server = hub.server(name) or {"tools": (), "resources": (), "templates": (), "prompts": ()}
    readable = [row.get("uri") or row["name"] for key in ("resources", "templates", "prompts") for row in server[key]]
    tools = [tool["name"] for tool in server["tools"]]
    return Entries(tools, readable, is_complete=False) if tools or readable else None


@key_command.command("list", epilog=exit_codes.with_examples("patchbay key list"))
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, **_: Any) -> None:
    """List the keys that are not revoked: name, grants, when they were made, end, and were used last."""
    with open_keys(context) as keys:
        rows = [("NAME", "GRANTS", "MADE", "EXPIRES", "USED"), *(describe_key(key, keys.now()) for key in keys.all())]
        click.echo(format_rows(rows))


@key_command.command("usage", epilog=exit_codes.with_examples("patchbay key usage", "patchbay key usage key:robot"))
@click.argument("caller", required=False, default="")
@with_settings_in_help("data")
@click.pass_context
def usage_command(context: click.Context, /, caller: str, **_: Any) -> None:
    """Show what CALLER (such as key:NAME), or each caller, uses of its limits, the nearest to its limit first.

    The hub has to run: it counts what callers do now.
    """
    settings = load_hub_settings(context)
    with errors_as_sentence():
        hub = find_running_hub(settings)
        if hub is None:
            fail("no hub runs on this data folder; start it with `patchbay serve`", exit_codes.USAGE)
        rows = hub.get("/access/usage.json?" + urlencode({"caller": caller} if caller else {}))["rows"]
    lines = [
        ("CALLER", "WHAT", "USED", "PART"),
        *((row["caller"], row["counts"], row["text"], _part(row)) for row in rows),
    ]
    click.echo(format_rows(lines))


def _part(row: dict[str, Any]) -> str:
    return "-" if row["most"] is None else f"{row['part']:.0%}"


@key_command.command("revoke", epilog=exit_codes.with_examples("patchbay key revoke ann-laptop"))
@click.argument("name", shell_complete=complete_key)
@with_settings_in_help("data")
@click.pass_context
def revoke_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Revoke the key NAME. A running hub refuses it within a second, and ends its streams."""
    revoke(context, name, "key")


def revoke(context: click.Context, name: str, what: str) -> None:
    """Revoke a key, and say so. `what` is what people call it: a key, or a client."""
    with open_keys(context) as keys:
        keys.revoke(name)
        click.echo(f"the {what} {name} is revoked", err=True)


@key_command.command("replace", epilog=exit_codes.with_examples("patchbay key replace", "patchbay key replace --yes"))
@click.option("--yes", is_flag=True, help="Do not ask; a command without a terminal needs this.")
@with_settings_in_help("data")
@click.pass_context
def replace_command(context: click.Context, /, yes: bool, **_: Any) -> None:
    """Make a new key for a hub that has lost its own, the file `key` in its data folder.

    It says what is lost without the old key, and asks. The hub must not run. A file with another key is kept beside the
    new one.
    """
    settings = load_settings(context)
    with (
        errors_as_sentence(),
        opened_store(settings, "it has no key to replace", needs_data=True) as store,
        closing(claim_folder(settings.data)),
    ):
        if find_problem(store, settings.data) is None:
            fail(f"{settings.data} has the right key: there is nothing to replace", exit_codes.USAGE)
        click.echo(_describe_loss(store), err=True)
        _confirm(yes)
        aside = replace_key(store, settings.data)
    kept = f"; the other key is in {aside}" if aside is not None else ""
    click.echo(f"the hub in {settings.data} has a new key{kept}", err=True)


def _confirm(yes: bool) -> None:
    """Ask whether to make a new key; end the process without a yes."""
    if not yes and not is_terminal(sys.stdin):
        fail("the key was not replaced: without a terminal add --yes", exit_codes.USAGE)
    if not yes and not click.confirm("Make a new key?", err=True):
        fail("the key was not replaced", exit_codes.USAGE)


def _describe_loss(store: Store) -> str:
    """Return the lines that say what a hub loses with its key."""
    rooms = len(store.names.all(ROOMS))
    lost = [
        f"the entries of {rooms} rooms up to now cannot be verified" if rooms else "",
        "rows of the audit chain up to now cannot be verified, except with the old public key",
        "people have to connect their accounts at mounted servers again",
        _describe_lost_secrets(store),
        "sessions, login links and links to large results end",
    ]
    return "\n".join(["Without its key the hub loses this:", *(f"  - {line}" for line in lost if line)])


def _describe_lost_secrets(store: Store) -> str:
    """Name the secrets that only the old key opens; empty without one."""
    names = list_names(store)
    verb = "secret has" if len(names) == 1 else "secrets have"
    return f"{len(names)} {verb} to be stored again: {', '.join(names)}" if names else ""


@contextmanager
def open_keys(context: click.Context) -> Iterator[PersonalKeys]:
    """Open the keys of the hub in the data folder; print an error as one sentence and end the process."""
    with errors_as_sentence(), opened_store(load_settings(context), WITHOUT_FOLDER) as store:
        yield PersonalKeys(store)


def describe_key(key: Key, now: float) -> tuple[str, ...]:
    """Return the row of a key in a list: its name, grants, and when it was made, ends, and was used last."""
    grants = "everything granted" if key.scopes is None else ",".join(sorted(key.scopes))
    expired = " (expired)" if key.is_expired(now) else ""
    return (key.name, grants, _date(key.made), _date(key.expires, "no end") + expired, _date(key.used, "not yet"))


def _date(at: float | None, otherwise: str = "") -> str:
    return otherwise if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
