"""The commands `profile list`, `info`, `explore`, `validate`, `version`, `diff` and `test`: show and check profiles.

The commands are the same for all plugins; the source of the profile does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.client_session import ClientSession, with_session
from patchbay.cli.commands.calling import FORMAT
from patchbay.cli.completion.values import complete_address
from patchbay.cli.completion.values import complete_profile as profile_names
from patchbay.cli.records.output import print_json
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import make_printable, program_name, quote_word, write_note
from patchbay.cli.typed_addresses import complete_reference, resolve_explored
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.contracts.contract import ValidationResult
from patchbay.client.contracts.drift import ContractChange
from patchbay.client.profiles.files import check_name
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import ProfileRow, Profiles, find_homes
from patchbay.client.source import Source
from patchbay.client.sources import make_sources
from patchbay.errors import PatchbayError
from patchbay.exit_codes import TIME_PROFILE, with_examples
from patchbay.settings import whole_environment

REFERENCE = click.argument("reference", shell_complete=profile_names)

CHANGE_LABELS: Mapping[str, str] = {
    "breaking": "breaking change",
    "review": "needs review",
    "non-breaking": "non-breaking",
}
CHANGE_COLOURS: Mapping[str, str] = {"breaking": "red", "review": "yellow", "non-breaking": "green"}


@click.group(
    "profile",
    epilog=with_examples(
        "patchbay profile list", "patchbay profile validate @time", "patchbay profile update time", after=TIME_PROFILE
    ),
)
def profile() -> None:
    """Manage profiles: addresses of servers, with contracts."""


def find_profile(work: ClientSession, reference: str) -> tuple[Profile, Source, Profiles]:
    """Find a profile by `@name` or `name`; return it with its source and its directory. Raises ProfileError."""
    name = check_name(reference.removeprefix("@"))
    source = work.sources.find(f"@{name}", work.context)
    kept = work.context.get_profiles(source.name)
    return kept.load(name), source, kept


def open_profiles(plugin: str) -> Profiles:
    """The profiles of one plugin, for the current directory."""
    return Profiles(find_homes(Path.cwd(), whole_environment()), plugin)


@profile.command(
    "list", epilog=with_examples("patchbay profile list --type mcp", "patchbay profile list --format json")
)
@click.option("--type", "plugin", metavar="PLUGIN", help="List only profiles of this plugin, such as mcp.")
@FORMAT
def list_(plugin: str | None, style: str) -> None:
    """List all profiles: name, plugin, place, number of tools."""
    with exit_on_error():
        sources = make_sources()
        plugins = [plugin] if plugin else sources.list_names()
        if plugin:
            sources.get(plugin)
        rows = [_profile_row(one, row) for one in plugins for row in open_profiles(one).list_rows()]
        if style == "json":
            print_json(rows)
        for row in rows if style == "text" else ():
            words = row["problem"] or row["description"] or ("minimal" if row["minimal"] else "")
            line = f"@{row['name']}  {row['plugin']}  {row['place']}  {row['tools']} tools  {words}"
            click.echo(make_printable(line).rstrip())


def _profile_row(plugin: str, row: ProfileRow) -> dict[str, Any]:
    names = ("name", "place", "tools", "minimal", "description", "problem")
    return {"plugin": plugin, "directory": str(row.directory), **{name: getattr(row, name) for name in names}}


@profile.command("info", epilog=with_examples("patchbay profile info @time", after=TIME_PROFILE))
@REFERENCE
@FORMAT
def info(reference: str, style: str) -> None:
    """Show a profile without contacting its server."""
    with exit_on_error():
        name = check_name(reference.removeprefix("@"))
        plugins = [one for one in make_sources().list_names() if name in open_profiles(one).find_directories()]
        kept = open_profiles(plugins[0] if plugins else "mcp")
        what = kept.describe(name)
        if style == "json":
            print_json({**what, "definitions": dict(kept.load(name).tools)})
            return
        for key, value in what.items():
            if value not in ("", [], None):
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                click.echo(f"{click.style(key, bold=True)}: {make_printable(str(shown))}")


@profile.command(
    "explore",
    epilog=with_examples(
        "patchbay profile explore @time",
        'patchbay profile explore "mcp+uvx://mcp-server-time/mcp-server-time"',
        "patchbay profile explore https://api.example.org/openapi.json",
        "patchbay profile explore s3://my-bucket/data/",
        after=TIME_PROFILE,
    ),
)
@click.argument("address", shell_complete=complete_address)
@with_session
def explore(work: ClientSession, /, address: str) -> None:
    """Print a service as one JSON object, as a base for a profile of it."""
    address = resolve_explored(address, work.sources, work.context)
    print_json(work.sources.find(address, work.context).explores(address, work.context))


@profile.command("validate", epilog=with_examples("patchbay profile validate @time", after=TIME_PROFILE))
@REFERENCE
@FORMAT
@with_session
def validate(work: ClientSession, /, reference: str, style: str) -> None:
    """Compare a profile with its server: valid, changed, unknown (the profile has no contract), or error."""
    what, source, _ = find_profile(work, reference)
    result = source.validates(what, work.context)
    if style == "json":
        print_json(result.to_json())
    else:
        click.echo(f"@{what.name}: {result.status}: {make_printable(result.message)}")
        for line in format_changes(result.changes):
            click.echo(line)
        if result.status == "changed":
            click.echo(f"Profile hash: {result.expected}\nCurrent hash: {result.current_hash}")
    _exit_with_status(result)


def _exit_with_status(result: ValidationResult) -> None:
    if result.status in ("changed", "error"):
        sys.exit(exit_codes.CHANGED if result.status == "changed" else exit_codes.FAILED)


def format_changes(changes: Iterable[ContractChange]) -> Iterator[str]:
    """Format changes for people, each with its grade."""
    for change in changes:
        mark = click.style(f"({CHANGE_LABELS[change.kind]})", fg=CHANGE_COLOURS[change.kind])
        yield f"  - {make_printable(change.sentence)} {mark}"


@profile.command("version", epilog=with_examples("patchbay profile version @time", after=TIME_PROFILE))
@click.argument("address", shell_complete=complete_address)
@with_session
def version(work: ClientSession, /, address: str) -> None:
    """Print the hash of a service's current contract; some services have no contract."""
    address = complete_reference(address, work.context.list_servers)
    value = work.sources.find(address, work.context).versions(address, work.context)
    if value is None:
        write_note(f"{address}: this kind of service has no version")
    else:
        click.echo(value)


@profile.command(
    "diff",
    epilog=with_examples(
        "patchbay profile diff @time", "patchbay profile diff @time --format json", after=TIME_PROFILE
    ),
)
@REFERENCE
@FORMAT
@with_session
def diff(work: ClientSession, /, reference: str, style: str) -> None:
    """Show the differences between the contract of a profile and its server."""
    what, source, _ = find_profile(work, reference)
    result = source.validates(what, work.context)
    if style == "json":
        print_json([change.to_json() for change in result.changes])
    elif result.status in ("error", "unknown"):
        write_note(f"@{what.name}: {result.message}")
    else:
        for line in format_changes(result.changes) if result.changes else ["No changes."]:
            click.echo(line)
    _exit_with_status(result)


@profile.command(
    "test",
    epilog=with_examples(
        "patchbay profile test @time", 'patchbay profile test @time "get_current_time?timezone=UTC"', after=TIME_PROFILE
    ),
)
@REFERENCE
@click.argument("references", nargs=-1)
@with_session
def test(work: ClientSession, /, reference: str, references: tuple[str, ...]) -> None:
    """Run references of a profile: the given ones, or those in its field `tested_with`. Show which of them work."""
    what, _, _ = find_profile(work, reference)
    wanted = references or tuple(what.fields.get("tested_with", ()))
    if not wanted:
        raise ProfileError(f"@{what.name}", "tested_with", "expected references to run, here or on the command line")
    if not try_references(work, what.name, wanted):
        sys.exit(exit_codes.FAILED)


def try_references(work: ClientSession, name: str, references: Sequence[str]) -> bool:
    """Run references and show the result of each; return whether all work."""
    good = True
    for reference in references:
        address = to_address(name, reference)
        click.echo(f"Running: {program_name()} cat {quote_word(address)}")
        problem = _find_problem(work, address)
        work.display.clear()
        good = good and problem is None
        click.echo(click.style("✓ Success", fg="green") if problem is None else click.style(f"✗ {problem}", fg="red"))
    return good


def to_address(name: str, reference: str) -> str:
    """Complete a reference such as `search?gene=BRAF` to the address of a profile."""
    if reference.startswith("@"):
        return reference
    return f"@{name}{reference}" if reference.startswith("?") else f"@{name}/{reference}"


def _find_problem(work: ClientSession, address: str) -> str | None:
    """Describe the problem of one reference; None when it works."""
    try:
        for record in work.sources.find(address, work.context).reads(address, work.context):
            if record.get("isError") or record.get("_error"):
                return make_printable(str(record.get("text") or record.get("message") or "the tool reports an error"))
    except PatchbayError as problem:
        return make_printable(problem.message)
    return None
