"""The commands `patchbay search`, `add` and `outdated`: servers of registries, as mounts with an exact version.

`add` and an update show what will run before anything is written; a hub starts it only after that. An update is
rehearsed: the new version is started once, and its tools are compared with those that are pinned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.cli.commands.registries.rehearsal import list_offered
from patchbay.cli.data_store import opened_store
from patchbay.cli.messages import fail, make_printable
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.client.registry.lookup import Registries, choose
from patchbay.client.registry.offers import Offer, RegisteredServer, make_fields
from patchbay.client.registry.packages import MountedPackage, mounted_package, with_version
from patchbay.client.registry.versions import is_newer
from patchbay.errors import PatchbayError
from patchbay.pins.explanation import describe_change
from patchbay.pins.records import load_pins
from patchbay.settings import Settings
from patchbay.store import store_exists

KINDS = ("pypi", "npm")


@click.command("search", epilog=exit_codes.with_examples("patchbay search time", "patchbay search github --json"))
@click.argument("word")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object for each server.")
@with_settings_in_help("registry")
@click.pass_context
def search_command(context: click.Context, /, word: str, is_json: bool, **_: Any) -> None:
    """List the servers of the registry whose names contain WORD."""
    try:
        found = _registries(load_settings(context)).search(word)
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
        fail(f"the registry has no server whose name contains {word!r}", exit_codes.FAILED)


@click.command(
    "add",
    epilog=exit_codes.with_examples(
        "patchbay add time",
        "patchbay add io.github.example/weather --as weather --env REGION=eu",
        "patchbay add pypi:mcp-server-time",
        "patchbay add npm:@modelcontextprotocol/server-everything --yes",
    ),
)
@click.argument("name")
@click.option("--as", "own_name", default="", metavar="NAME", help="The name of the server in this hub.")
@click.option(
    "--env", "values", multiple=True, metavar="NAME=VALUE", help="A variable, or a header of a URL; secrets as ${NAME}."
)
@click.option("--way", type=click.Choice(["npm", "pypi", "remote"]), help="Which of several ways to run it.")
@click.option("--yes", is_flag=True, help="Do not ask before the mount is written.")
@click.option("--replace", is_flag=True, help="Replace the mount with this name.")
@with_settings_in_help("servers", "registry", "pypi", "npm")
@click.pass_context
def add_command(
    context: click.Context,
    /,
    name: str,
    own_name: str,
    values: tuple[str, ...],
    way: str | None,
    yes: bool,
    replace: bool,
    **_: Any,
) -> None:
    """Mount a server of the registry, of PyPI or of npm.

    NAME is a name of the registry, pypi:NAME or npm:NAME. The command shows what will run, with its variables and
    secrets, and asks before it writes the mount.
    """
    settings = load_settings(context)
    try:
        server = _find(_registries(settings), name)
        offer = _choose_way(server, way)
        fields = make_fields(offer, _pairs(values))
        own = own_name or _own_name(server)
        for line in describe(server, offer, fields):
            click.echo(make_printable(line))
        if not yes and not _agrees():
            fail("nothing was written", exit_codes.FAILED)
        title = {"title": server.title} if server.title else {}
        file = write_mount(settings.servers, own, fields | title, replace)
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
        mounted = [one for one in _mounts(settings.servers) if not updated or one.name == updated]
        if updated and not mounted:
            fail(f"there is no mount {updated} of a package of PyPI or npm", exit_codes.USAGE)
        registries = _registries(settings)
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


def describe(server: RegisteredServer, offer: Offer, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines that say what an offer runs, and what it gets to know."""
    yield f"{server.name} {server.version}: {server.description}".rstrip(": ")
    if offer.kind == "remote":
        yield f"  reaches {offer.url}"
    else:
        where = "npm" if offer.kind == "npm" else "PyPI"
        words = f" with {' '.join(offer.arguments)}" if offer.arguments else ""
        yield f"  runs {offer.name} {offer.version} of {where} on this machine{words}"
    values = fields.get("environment") or fields.get("headers") or {}
    for one in offer.wanted:
        marks = ", ".join(word for word, holds in (("required", one.is_required), ("secret", one.is_secret)) if holds)
        value = f" = {values[one.name]}" if one.name in values else " (not set)"
        yield (
            f"  {one.name}{value}"
            + (f" [{marks}]" if marks else "")
            + (f": {one.description}" if one.description else "")
        )
    for name in sorted(set(values) - {one.name for one in offer.wanted}):
        yield f"  {name} = {values[name]} (the registry does not name it)"
    yield f"  address: {fields['address']}"


def _update(settings: Settings, one: MountedPackage, newest: str, accept: bool) -> None:
    """Start the newest version, compare its lists with the pins, and write the mount."""
    fields = with_version(one, newest)
    listed = list_offered(one.name, fields)
    changes = list(_changes(settings, one.name, listed))
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


def _changes(settings: Settings, name: str, listed: Mapping[Any, Mapping[str, Any]]) -> Iterator[str]:
    """Yield how lists differ from the approved pins of a server."""
    if not store_exists(settings.store, settings.data):
        return
    with opened_store(settings) as store:
        document = load_pins(store, name).document
        if document is None:
            return
        for key, item in document.items.items():
            if item.approved is None:
                continue
            old = orjson.loads(store.blobs.get(item.approved.cid))
            new = listed.get(key)
            if new is None:
                yield f"{':'.join(key)} is gone"
            elif dict(new) != old:
                meanings = "; ".join(each.sentence for each in describe_change(key, old, new))
                yield f"{':'.join(key)} changes: {meanings}"
        for key in listed:
            if key not in document.items:
                yield f"{':'.join(key)} is new"


def _mounts(folder: Path) -> Iterator[MountedPackage]:
    for file in sorted(folder.glob("*.json")):
        found = mounted_package(file)
        if found is not None:
            yield found


def _registries(settings: Settings) -> Registries:
    return Registries(settings.registry, settings.pypi, settings.npm)


def _find(registries: Registries, name: str) -> RegisteredServer:
    kind, colon, package = name.partition(":")
    if colon and kind in KINDS:
        return registries.find_package(kind, package)
    return registries.find(name) if "/" in name else choose(registries.search(name), name)


def _choose_way(server: RegisteredServer, way: str | None) -> Offer:
    offers = [one for one in server.offers if way in (None, one.kind)]
    if offers:
        return offers[0]
    why = "; ".join(server.others) or "the registry names no package and no URL"
    fail(f"{server.name} cannot be added{f' as {way}' if way else ''}: {why}", exit_codes.USAGE)


def _own_name(server: RegisteredServer) -> str:
    name = server.short_name.rpartition(":")[2].lower()
    for word in ("mcp-server-", "server-", "mcp-"):
        name = name.removeprefix(word)
    return name.removesuffix("-mcp-server").removesuffix("-mcp") or "server"


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
