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
from patchbay.access.providers.invited import InvitedPeople, in_one_form
from patchbay.access.providers.provider import find_provider
from patchbay.cli.completion.values import complete_invited, complete_person
from patchbay.cli.data_store import errors_as_sentence, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.running_hub import find_hub_address
from patchbay.cli.terminal.messages import fail, write_note
from patchbay.errors import InvalidParams
from patchbay.settings import Settings
from patchbay.views.hidden_characters import show_hidden_characters

_with_provider = click.option(
    "--provider",
    metavar="NAME",
    help="The identity provider with which the person signs in: its name in --sign-in, or its URL there.",
)


@click.command(
    "invite",
    epilog=exit_codes.with_examples(
        "patchbay invite ann",
        "patchbay invite ann@example.org --at https://hub.example.org",
        "patchbay invite ann@example.org --provider https://id.example.org",
    ),
)
@click.argument("name", shell_complete=complete_person)
@click.option("--at", default="", metavar="URL", help="The address of the hub as the person reaches it.")
@_with_provider
@with_settings_in_help("data", "host", "port", "public_url", "sign_in")
@click.pass_context
def invite_command(context: click.Context, /, name: str, at: str, provider: str | None, **_: Any) -> None:
    """Print a link with which the person NAME makes an account. The link works once, within three days.

    For a person who has an account, the link replaces the password and the passkeys, and ends all sessions.

    With --provider, NAME is an e-mail address that the identity provider has verified, or a subject there. The link is
    that of the sign-in; the first sign-in of this person uses the invitation up.
    """
    with _accounts(context) as (accounts, invited, settings):
        base = at.rstrip("/") or find_hub_address(context, settings).public
        if provider is None:
            click.echo(base + accounts.invitations.make(name))
            return
        issuer, page = _find_sign_in(settings, provider)
        row = invited.add(name, issuer)
        write_note(f"{show_hidden_characters(row.who)} is invited to sign in with {issuer}")
        click.echo(base + page)


@click.group(
    "people",
    epilog=exit_codes.with_examples(
        "patchbay people list",
        "patchbay people remove ann",
        "patchbay people withdraw ann@example.org --provider https://id.example.org",
    ),
)
def people() -> None:
    """List or remove the accounts of people; withdraw invitations."""


@people.command("list", epilog=exit_codes.with_examples("patchbay people list"))
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, **_: Any) -> None:
    """List the accounts: name, date, ways to sign in, sessions, clients.

    A person of an identity provider signs in as its subject there. Invitations to such a sign-in that are not used yet
    follow the accounts.
    """
    with _accounts(context) as (accounts, invited, _settings):
        for person in accounts.people.list():
            ways = (["password"] if person.password else []) + [f"{len(person.passkeys)} passkeys"]
            if person.outside is not None:
                ways = [f"{show_hidden_characters(person.outside.subject)} at {person.outside.issuer}"]
            since = time.strftime("%Y-%m-%d", time.gmtime(person.at))
            counts = f"{len(person.sessions)} sessions\t{len(person.clients)} clients"
            click.echo(f"{person.name}\t{since}\t{', '.join(ways)}\t{counts}")
        for row in invited.list():
            since = time.strftime("%Y-%m-%d", time.gmtime(row.at))
            click.echo(f"{show_hidden_characters(row.who)}\t{since}\tat {row.issuer}\tinvited")


@people.command("remove", epilog=exit_codes.with_examples("patchbay people remove ann"))
@click.argument("name", shell_complete=complete_person)
@with_settings_in_help("data")
@click.pass_context
def remove_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Remove the account NAME: its sessions and clients end within a second, and its invitations."""
    with _accounts(context) as (accounts, _invited, _settings):
        had = accounts.people.remove(name.strip().lower())
        if not had:
            fail(f"there is no account {name[:64]!r}; `patchbay people list` shows all", exit_codes.USAGE)
        click.echo(f"the account {name} is removed")


@people.command(
    "withdraw",
    epilog=exit_codes.with_examples("patchbay people withdraw ann@example.org --provider https://id.example.org"),
)
@click.argument("name", shell_complete=complete_invited)
@_with_provider
@with_settings_in_help("data", "sign_in")
@click.pass_context
def withdraw_command(context: click.Context, /, name: str, provider: str | None, **_: Any) -> None:
    """Withdraw the invitation of NAME to a sign-in with an identity provider.

    Without --provider, the one invitation of NAME.
    """
    with _accounts(context) as (_people, invited, settings):
        name = name.strip()
        issuers = {row.issuer for row in invited.list() if row.who == in_one_form(name)}
        if provider is not None:
            # An invitation outlives its provider in the settings, so its URL is enough.
            issuers &= {provider if provider in issuers else _find_sign_in(settings, provider)[0]}
        if not issuers:
            fail(f"there is no such invitation of {name[:64]!r}; `patchbay people list` shows all", exit_codes.USAGE)
        if len(issuers) > 1:
            fail(f"{name} is invited at {', '.join(sorted(issuers))}: name one with --provider", exit_codes.USAGE)
        invited.withdraw(name, *issuers)
        click.echo(f"the invitation of {show_hidden_characters(name)} is withdrawn")


def _find_sign_in(settings: Settings, provider: str) -> tuple[str, str]:
    """Return the URL of an identity provider, and the path at which the sign-in begins.

    A command may not know the settings of the hub; then the URL is taken as it is. Raises ConfigError, InvalidParams.
    """
    found = find_provider(settings, provider)
    if found is not None:
        return found.issuer.url, found.page
    if not settings.sign_in and provider.startswith(("https://", "http://")):
        return provider, "/login"
    names = ", ".join(settings.sign_in)
    if names:
        raise InvalidParams(f"--provider: expected a name or URL of --sign-in ({names}), got {provider!r:.80}")
    raise InvalidParams(
        f"--provider: expected the URL of the identity provider, exactly as --sign-in has it, got {provider!r:.80};"
        " names are known where PATCHBAY_SIGN_IN is set"
    )


@contextmanager
def _accounts(context: click.Context) -> Iterator[tuple[Accounts, InvitedPeople, Settings]]:
    """Open the accounts of the data folder, and the invitations to sign-ins with identity providers.

    An error ends the process with an exit code and one sentence.
    """
    with errors_as_sentence():
        settings = load_settings(context)
        with opened_store(settings, "use its page /people") as store:
            accounts = Accounts(settings, store.journal, PersonalKeys(store))
            yield accounts, InvitedPeople(store.journal), settings
