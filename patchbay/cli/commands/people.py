"""The commands `patchbay invite` and `patchbay people`: the accounts of people who sign in to the hub."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.keys import PersonalKeys
from patchbay.access.people.accounts import Accounts
from patchbay.cli.completion import complete_person
from patchbay.cli.data_store import errors_as_sentence, opened_store
from patchbay.cli.messages import fail
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.running_hub import find_hub_address
from patchbay.settings import Settings
from patchbay.views.hidden_characters import show_hidden_characters


@click.command(
    "invite",
    epilog=exit_codes.with_examples(
        "patchbay invite ann", "patchbay invite ann@example.org --at https://hub.example.org"
    ),
)
@click.argument("name", shell_complete=complete_person)
@click.option("--at", default="", metavar="URL", help="The address of the hub as the person reaches it.")
@with_settings_in_help("data", "host", "port", "public_url")
@click.pass_context
def invite_command(context: click.Context, /, name: str, at: str, **_: Any) -> None:
    """Print a link with which the person NAME makes an account. The link works once, within three days.

    For a person who has an account, the link replaces the password and the passkeys, and ends all sessions.
    """
    with _accounts(context) as (accounts, settings):
        click.echo((at.rstrip("/") or find_hub_address(context, settings).public) + accounts.invitations.make(name))


@click.group("people", epilog=exit_codes.with_examples("patchbay people list", "patchbay people remove ann"))
def people() -> None:
    """List or remove the accounts of people."""


@people.command("list", epilog=exit_codes.with_examples("patchbay people list"))
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, **_: Any) -> None:
    """List the accounts: name, date, ways to sign in, sessions, clients.

    A person of an identity provider signs in as its subject there.
    """
    with _accounts(context) as (accounts, _settings):
        for person in accounts.people.list():
            ways = (["password"] if person.password else []) + [f"{len(person.passkeys)} passkeys"]
            if person.outside is not None:
                ways = [f"{show_hidden_characters(person.outside.subject)} at {person.outside.issuer}"]
            since = time.strftime("%Y-%m-%d", time.gmtime(person.at))
            counts = f"{len(person.sessions)} sessions\t{len(person.clients)} clients"
            click.echo(f"{person.name}\t{since}\t{', '.join(ways)}\t{counts}")


@people.command("remove", epilog=exit_codes.with_examples("patchbay people remove ann"))
@click.argument("name", shell_complete=complete_person)
@with_settings_in_help("data")
@click.pass_context
def remove_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Remove the account NAME: its sessions and clients end within a second, and its invitations."""
    with _accounts(context) as (accounts, _settings):
        had = accounts.people.remove(name.strip().lower())
        if not had:
            fail(f"there is no account {name[:64]!r}; `patchbay people list` shows all", exit_codes.USAGE)
        click.echo(f"the account {name} is removed")


@contextmanager
def _accounts(context: click.Context) -> Iterator[tuple[Accounts, Settings]]:
    """Open the accounts of the data folder. An error ends the process with an exit code and one sentence."""
    with errors_as_sentence():
        settings = load_settings(context)
        with opened_store(settings, "use its page /people") as store:
            yield Accounts(settings, store.journal, PersonalKeys(store)), settings
