"""The commands `patchbay search`, `add` and `outdated`: servers of registries, as mounts with an exact version.

`add` and an update show what will run before anything is written; a hub starts it only after that. An update is
rehearsed: the new version is started once, and its tools are compared with those that are pinned.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.catalogue.operating.registry_search import search_registry
from patchbay.catalogue.operating.updates import find_changes, list_offered
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.cli.commands.registries.names import check_registry_name
from patchbay.cli.data_store import opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.programs.proposals import add_proposed_lines
from patchbay.cli.programs.rights import SETTINGS, take_fields, with_program_rights
from patchbay.cli.secret_storing import ask_for_missing
from patchbay.cli.terminal.messages import fail, make_printable
from patchbay.client.registry.choices import WAYS, choose_way, describe, find_server, own_name
from patchbay.client.registry.lookup import Registries
from patchbay.client.registry.offers import make_fields
from patchbay.client.registry.packages import MountedPackage, mounted_packages, with_version
from patchbay.client.registry.versions import is_newer
from patchbay.errors import PatchbayError
from patchbay.kinds.program_places import program_places
from patchbay.pins.documents import ItemKey, Wire
from patchbay.settings import Settings
from patchbay.store import store_exists


@click.command(
    "search", epilog=exit_codes.with_examples("patchbay search time", "patchbay search read a calendar --json")
)
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object for each server.")
@with_settings_in_help("registry")
@click.pass_context
def search_command(context: click.Context, /, words: tuple[str, ...], is_json: bool, **_: Any) -> None:
    """List the servers of the registry whose names contain a WORD.

    For several words, such as a question, the best are first.
    """
    question = " ".join(words)
    try:
        found = search_registry(Registries.of(load_settings(context)), question)
    except PatchbayError as problem:
        fail(problem.message, problem.exit_code)
    for one in found:
        ways = sorted({offer.kind for offer in one.offers})
        if is_json:
            row = {"name": one.name, "version": one.version, "description": one.description, "ways": ways}
            click.echo(orjson.dumps(row).decode())
        else:
            click.echo(make_printable(f"{one.name} {one.version} [{', '.join(ways) or 'not here'}] {one.description}"))
    if not found:
        fail(f"the registry has no server whose name contains {' or '.join(words)}", exit_codes.FAILED)


@click.command(
    "add",
    epilog=exit_codes.with_examples(
        "patchbay add time",
        "patchbay add pypi:mcp-server-time --as clock --env TZ=UTC",
        "patchbay add pypi:mcp-server-time",
        "patchbay add npm:@modelcontextprotocol/server-everything --yes",
    ),
)
@click.argument("name")
@click.option("--as", "chosen_name", default="", metavar="NAME", help="The name of the server in this hub.")
@click.option(
    "--env", "values", multiple=True, metavar="NAME=VALUE", help="A variable, or a header of a URL; secrets as ${NAME}."
)
@click.option("--way", type=click.Choice(WAYS), help="Which of several ways to run it.")
@click.option("--yes", is_flag=True, help="Do not ask before the mount is written.")
@click.option("--replace", is_flag=True, help="Replace the mount with this name.")
@with_program_rights
@with_settings_in_help("servers", "registry", "pypi", "npm", without=SETTINGS)
@click.pass_context
def add_command(
    context: click.Context,
    /,
    name: str,
    chosen_name: str,
    values: tuple[str, ...],
    way: str | None,
    yes: bool,
    replace: bool,
    **rights: Any,
) -> None:
    """Mount a server of the registry, of PyPI or of npm.

    NAME is a name of the registry, pypi:NAME or npm:NAME. The command shows what will run, with its variables and
    secrets, and asks before it writes the mount.
    """
    settings = load_settings(context)
    try:
        check_registry_name(name, settings.servers)
        server = find_server(Registries.of(settings), name)
        offer = choose_way(server, way)
        fields = make_fields(offer, _pairs(values)) | take_fields(rights)
        own = chosen_name or own_name(server)
        for line in describe(server, offer, fields):
            click.echo(make_printable(line))
        fields = add_proposed_lines(fields, settings, own, False, _pairs(values) if yes else None)
        if not yes and not _agrees():
            fail("nothing was written", exit_codes.FAILED)
        title = {"title": server.title} if server.title else {}
        file = write_mount(settings.servers, own, fields | title, replace)
        ask_for_missing(settings, own, fields)
    except PatchbayError as problem:
        fail(problem.message, problem.exit_code)
    click.echo(f"{file} mounts it; a hub that watches {file.parent} serves it at /mcp/{own}")


@click.command("outdated", epilog=exit_codes.with_examples("patchbay outdated", "patchbay outdated --update time"))
@click.option("--update", "updated", default="", metavar="NAME", help="Mount the newest version of this server.")
@click.option("--accept", is_flag=True, help="Update although the new version lists other tools.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object for each server.")
@with_settings_in_help("servers", "data", "pypi", "npm")
@click.pass_context
def outdated_command(context: click.Context, /, updated: str, accept: bool, is_json: bool, **_: Any) -> None:
    """List the mounted packages with a newer version.

    With --update, the newest version is started once and its tools are compared with those that are pinned. When they
    differ, the command shows that and changes nothing, unless --accept is given; the hub then holds what changed until
    it is approved, if the mount says "changes": "hold".
    """
    settings = load_settings(context)
    try:
        mounted = [one for one in mounted_packages(settings.servers) if not updated or one.name == updated]
        if updated and not mounted:
            fail(f"there is no mount {updated} of a package of PyPI or npm", exit_codes.USAGE)
        registries = Registries.of(settings)
        for one in mounted:
            newest = registries.newest(one.kind, one.package)
            is_behind = newest is not None and is_newer(newest, one.version)
            if is_json:
                row = {"name": one.name, "package": one.package, "version": one.version, "newest": newest}
                click.echo(orjson.dumps(row | {"behind": is_behind}).decode())
            elif is_behind:
                click.echo(f"{one.name}: {one.package} {one.version or 'without a version'} -> {newest}")
            if updated and is_behind and newest is not None:
                _update(settings, one, newest, accept)
    except PatchbayError as problem:
        fail(problem.message, problem.exit_code)


def _update(settings: Settings, one: MountedPackage, newest: str, accept: bool) -> None:
    """Start the newest version, compare its lists with the pins, and write the mount."""
    fields = with_version(one, newest)
    listed = list_offered(one.name, fields, program_places(settings))
    changes = _changes(settings, one.name, listed)
    for line in changes:
        click.echo(make_printable(f"  {line}"))
    if changes and not accept:
        fail(
            f"{one.package} {newest} lists other entries than those that are approved; nothing was changed:"
            " --accept updates it",
            exit_codes.CHANGED,
        )
    write_mount(settings.servers, one.name, fields, True)
    click.echo(f"{one.name} is mounted in version {newest}")


def _changes(settings: Settings, name: str, listed: Mapping[ItemKey, Wire]) -> list[str]:
    """Return how lists differ from the approved pins of a server; nothing for a hub without a store."""
    if not store_exists(settings.store, settings.data):
        return []
    with opened_store(settings) as store:
        return list(find_changes(store, name, listed))


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            fail(f"--env {text}: expected NAME=VALUE", exit_codes.USAGE)
        found[name] = value
    return found


def _agrees() -> bool:
    if not sys.stdin.isatty():
        fail("expected --yes, because this command runs without a terminal", exit_codes.USAGE)
    return click.confirm("Write this mount?")
