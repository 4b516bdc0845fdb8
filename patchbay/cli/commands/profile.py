"""`profile list|info|explore|validate|version|diff|test`: profiles looked at, and held against their servers.

The same commands for every kind of service: the profile's source does the work (JN-C4).
Sources: JN-44, JN-55 to JN-57, JN-60 to JN-62, JN-72.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.client_session import ClientSession, with_reach
from patchbay.cli.commands.calling import FORMAT, pretty
from patchbay.cli.completion import addresses
from patchbay.cli.completion import profiles as profile_names
from patchbay.cli.failures import ending
from patchbay.cli.messages import note, printable, program, quoted
from patchbay.cli.typed_addresses import explored, full
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.contracts.contract import ValidationResult
from patchbay.client.contracts.drift import ContractChange
from patchbay.client.profiles.files import check_name
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import ProfileRow, Profiles, find_homes
from patchbay.client.source import Source
from patchbay.client.sources import make_sources
from patchbay.errors import PatchbayError
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment

REFERENCE = click.argument("reference", shell_complete=profile_names)

MARKS: Mapping[str, str] = {"breaking": "breaking change", "review": "to be reviewed", "non-breaking": "non-breaking"}
COLOURS: Mapping[str, str] = {"breaking": "red", "review": "yellow", "non-breaking": "green"}


@click.group(
    "profile", epilog=with_examples("jn profile list", "jn profile validate @biomcp", "jn profile update biomcp")
)
def profile() -> None:
    """Profiles: how servers are reached, and what is expected of them."""


def find_profile(work: ClientSession, reference: str) -> tuple[Profile, Source, Profiles]:
    """A profile by `@name` or `name`, its source, and where it is kept. Raises ProfileError."""
    name = check_name(reference.removeprefix("@"))
    source = work.sources.find(f"@{name}", work.context)
    kept = work.context.get_profiles(source.name)
    return kept.load(name), source, kept


def kept_profiles(plugin: str) -> Profiles:
    """The profiles of one plugin, seen from the folder this runs in."""
    return Profiles(find_homes(Path.cwd(), whole_environment()), plugin)


@profile.command("list", epilog=with_examples("jn profile list --type mcp", "jn profile list --format json"))
@click.option("--type", "plugin", metavar="PLUGIN", help="Only those of one plugin, such as mcp.")
@FORMAT
def list_(plugin: str | None, style: str) -> None:
    """List all profiles: name, plugin, where it is, how many tools it records."""
    with ending():
        sources = make_sources()
        plugins = [plugin] if plugin else sources.list_names()
        if plugin:
            sources.get(plugin)
        rows = [_row(one, row) for one in plugins for row in kept_profiles(one).list_rows()]
        if style == "json":
            pretty(rows)
        for row in rows if style == "text" else ():
            words = row["problem"] or row["description"] or ("minimal" if row["minimal"] else "")
            line = f"@{row['name']}  {row['plugin']}  {row['place']}  {row['tools']} tools  {words}"
            click.echo(printable(line).rstrip())


def _row(plugin: str, row: ProfileRow) -> dict[str, Any]:
    names = ("name", "place", "tools", "minimal", "description", "problem")
    return {"plugin": plugin, "directory": str(row.directory), **{name: getattr(row, name) for name in names}}


@profile.command("info", epilog=with_examples("jn profile info @biomcp"))
@REFERENCE
@FORMAT
def info(reference: str, style: str) -> None:
    """Show a profile without asking its server."""
    with ending():
        name = check_name(reference.removeprefix("@"))
        plugins = [one for one in make_sources().list_names() if name in kept_profiles(one).find_directories()]
        kept = kept_profiles(plugins[0] if plugins else "mcp")
        what = kept.describe(name)
        if style == "json":
            pretty({**what, "definitions": dict(kept.load(name).tools)})
            return
        for key, value in what.items():
            if value not in ("", [], None):
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                click.echo(f"{click.style(key, bold=True)}: {printable(str(shown))}")


@profile.command(
    "explore",
    epilog=with_examples(
        "jn profile explore @biomcp",
        'jn profile explore "mcp+uvx://biomcp-python/biomcp?command=run"',
        "jn profile explore https://api.example.org/openapi.json",
        "jn profile explore s3://my-bucket/data/",
    ),
)
@click.argument("address", shell_complete=addresses)
@with_reach
def explore(work: ClientSession, /, address: str) -> None:
    """Print what a service offers, as one JSON object: what a profile of it can be made from."""
    address = explored(address, work.sources, work.context)
    pretty(work.sources.find(address, work.context).explores(address, work.context))


@profile.command("validate", epilog=with_examples("jn profile validate @biomcp"))
@REFERENCE
@FORMAT
@with_reach
def validate(work: ClientSession, /, reference: str, style: str) -> None:
    """Say whether a profile still fits its server: valid, changed, unknown (nothing is expected), or error."""
    what, source, _ = find_profile(work, reference)
    result = source.validates(what, work.context)
    if style == "json":
        pretty(result.to_json())
    else:
        click.echo(f"@{what.name}: {result.status}: {printable(result.message)}")
        for line in change_lines(result.changes):
            click.echo(line)
        if result.status == "changed":
            click.echo(f"Profile hash: {result.expected}\nCurrent hash: {result.current_hash}")
    _end(result)


def _end(result: ValidationResult) -> None:
    if result.status in ("changed", "error"):
        sys.exit(exit_codes.CHANGED if result.status == "changed" else exit_codes.FAILED)


def change_lines(changes: Iterable[ContractChange]) -> Iterator[str]:
    """Changes for people, each with what it means."""
    for change in changes:
        mark = click.style(f"({MARKS[change.kind]})", fg=COLOURS[change.kind])
        yield f"  - {printable(change.sentence)} {mark}"


@profile.command("version", epilog=with_examples("jn profile version @biomcp"))
@click.argument("address", shell_complete=addresses)
@with_reach
def version(work: ClientSession, /, address: str) -> None:
    """Print the hash of a service's present contract; nothing, where contents change all the time."""
    address = full(address)
    value = work.sources.find(address, work.context).versions(address, work.context)
    if value is None:
        note(f"{address}: this kind of service has no version")
    else:
        click.echo(value)


@profile.command("diff", epilog=with_examples("jn profile diff @biomcp", "jn profile diff @biomcp --format json"))
@REFERENCE
@FORMAT
@with_reach
def diff(work: ClientSession, /, reference: str, style: str) -> None:
    """Show every difference between what a profile expects and what its server is."""
    what, source, _ = find_profile(work, reference)
    result = source.validates(what, work.context)
    if style == "json":
        pretty([change.to_json() for change in result.changes])
    elif result.status in ("error", "unknown"):
        note(f"@{what.name}: {result.message}")
    else:
        for line in change_lines(result.changes) if result.changes else ["No changes."]:
            click.echo(line)
    _end(result)


@profile.command(
    "test",
    epilog=with_examples("jn profile test @biomcp", 'jn profile test @biomcp "search?gene=BRAF"'),
)
@REFERENCE
@click.argument("references", nargs=-1)
@with_reach
def test(work: ClientSession, /, reference: str, references: tuple[str, ...]) -> None:
    """Run references of a profile, those given or those that it records as `tested_with`; say which of them work."""
    what, _, _ = find_profile(work, reference)
    wanted = references or tuple(what.fields.get("tested_with", ()))
    if not wanted:
        raise ProfileError(f"@{what.name}", "tested_with", "expected references to run, here or on the command line")
    if not tried(work, what.name, wanted):
        sys.exit(exit_codes.FAILED)


def tried(work: ClientSession, name: str, references: Sequence[str]) -> bool:
    """Run references, saying of each whether it works; whether all of them do."""
    good = True
    for reference in references:
        address = referenced(name, reference)
        click.echo(f"Running: {program()} cat {quoted(address)}")
        problem = _problem(work, address)
        work.display.clear()
        good = good and problem is None
        click.echo(click.style("✓ Success", fg="green") if problem is None else click.style(f"✗ {problem}", fg="red"))
    return good


def referenced(name: str, reference: str) -> str:
    """`search?gene=BRAF` of a profile as a whole address."""
    if reference.startswith("@"):
        return reference
    return f"@{name}{reference}" if reference.startswith("?") else f"@{name}/{reference}"


def _problem(work: ClientSession, address: str) -> str | None:
    """What is wrong with one reference; None when it works."""
    try:
        for record in work.sources.find(address, work.context).reads(address, work.context):
            if record.get("isError") or record.get("_error"):
                return printable(str(record.get("text") or record.get("message") or "the tool reports an error"))
    except PatchbayError as problem:
        return printable(problem.message)
    return None
