"""The commands `patchbay client`: programs that get access tokens at a shared hub (`new`, `list`, `revoke`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.keys import parse_expiry
from patchbay.access.oauth.public_keys import parse_public_keys
from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.commands.key import describe_key, open_keys, revoke, split_grants, write_key_notes
from patchbay.cli.completion.values import complete_key
from patchbay.cli.options import with_settings_in_help
from patchbay.cli.terminal.messages import format_rows


@click.group(
    "client",
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples(
        "patchbay client new nightly --grants 'call:notes.*'",
        "patchbay client new build --expires 90d",
        "patchbay client list",
        "patchbay client revoke nightly",
    ),
)
def client_command() -> None:
    """Make, list and revoke clients, which get tokens by OAuth.

    A client is a program that acts for itself, without a person. It is a personal key: its calls are of
    `key:NAME`, and `patchbay key` shows it too.
    """


@client_command.command("new", epilog=exit_codes.with_examples("patchbay client new build --expires 90d"))
@click.argument("name")
@click.option(
    "--public-key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The client signs (private_key_jwt): its public key, as PEM, JWK or JWK set.",
)
@click.option("--expires", metavar="WHEN", help="When the client ends: 90d, 12h, or a date such as 2027-01-31.")
@click.option(
    "--grants",
    metavar="LIST",
    help="Allow only these: see, call, read, or ACTION:PATTERN such as call:echo.*; comma-separated.",
)
@with_settings_in_help("data")
@click.pass_context
def new_command(
    context: click.Context, /, name: str, public_key: Path | None, expires: str | None, grants: str | None, **_: Any
) -> None:
    """Make the client NAME and print its credentials as JSON on standard output.

    The hub stores the hash of the secret: it cannot show it again.
    """
    with open_keys(context) as keys:
        public = "" if public_key is None else parse_public_keys(public_key.read_bytes())
        scopes = split_grants(grants)
        secret = keys.make(name, parse_expiry(expires, keys.now()), scopes, public)
    proof = {"token_endpoint_auth_method": "private_key_jwt"} if public else {"client_secret": secret}
    click.echo(json.dumps({"client_id": name, **proof}, indent=2))
    write_key_notes(context, scopes)


@client_command.command("list", epilog=exit_codes.with_examples("patchbay client list"))
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, **_: Any) -> None:
    """List the clients: name, proof, grants, when they were made, end, and were used last."""
    with open_keys(context) as keys:
        rows = [
            (name, "public key" if key.public_keys else "secret", *rest)
            for key in keys.all()
            for name, *rest in [describe_key(key, keys.now())]
        ]
    click.echo(format_rows([("NAME", "PROOF", "GRANTS", "MADE", "EXPIRES", "USED"), *rows]))


@client_command.command("revoke", epilog=exit_codes.with_examples("patchbay client revoke nightly"))
@click.argument("name", shell_complete=complete_key)
@with_settings_in_help("data")
@click.pass_context
def revoke_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Revoke the client NAME with its tokens. A running hub refuses them within a second, and ends their streams."""
    revoke(context, name, "client")
