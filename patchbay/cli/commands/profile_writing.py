"""The commands `profile create`, `new`, `update`, `remove` and `restore`.

They write profiles atomically and keep the old version.

`update` asks questions on a terminal; without a terminal, options must answer them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.client_session import ClientSession, with_session
from patchbay.cli.commands.profile import (
    REFERENCE,
    find_profile,
    format_changes,
    open_profiles,
    profile,
    try_references,
)
from patchbay.cli.completion.values import complete_address
from patchbay.cli.records.ndjson import open_standard_input, parse_object
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import program_name, write_note
from patchbay.cli.typed_addresses import API_SCHEME, complete_reference
from patchbay.client.addresses.address import NamedServer, find_preset, parse_address, to_profile_fields
from patchbay.client.addresses.targets import AddressError, Local, Stdio
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.connection.connection import Connection
from patchbay.client.contracts.contract import load_snapshot, store_snapshot
from patchbay.client.contracts.drift import Tool
from patchbay.client.profiles.files import check_name
from patchbay.client.profiles.fixed_paths import fix_document, fix_folder
from patchbay.client.profiles.layouts import Profile, get_target, parse_profile
from patchbay.client.profiles.lookup import Profiles
from patchbay.client.profiles.updates import ProfileUpdate, make_contract_fields, record_contract, update_profile
from patchbay.client.source import Source, get_scheme
from patchbay.client.sources import make_sources
from patchbay.client.sources.http import HttpSource
from patchbay.client.sources.http_profiles import add_endpoint_tools
from patchbay.client.sources.http_targets import PLUGIN, make_connection_fields
from patchbay.client.sources.http_updates import update_endpoints
from patchbay.client.sources.mcp import McpSource
from patchbay.exit_codes import TIME_PROFILE, with_examples
from patchbay.suggestions import describe_unknown_name
from patchbay.terminal import is_terminal

UPDATABLE_PLUGINS = {"mcp": "MCP server", "http": "HTTP API"}
"""Plugins whose services have a contract, with the name of such a service."""

PROJECT = click.option(
    "--project", is_flag=True, help="Write to the .jn directory of the project instead of the user's directory."
)
EXAMPLES = click.option(
    "--examples/--no-examples", "examples", default=None, help="Write examples of tools too, or not."
)


@profile.command(
    "create",
    epilog=with_examples(
        'echo \'{"command": "uvx", "args": ["mcp-server-time"], "transport": "stdio"}\' > time.json',
        "patchbay profile create time < time.json",
        "patchbay profile create time --pin < time.json",
    ),
)
@click.argument("name")
@click.option("--pin", is_flag=True, help="Contact the server and record its current contract.")
@EXAMPLES
@PROJECT
@with_session
def create(work: ClientSession, /, name: str, pin: bool, examples: bool | None, project: bool) -> None:
    """Make a profile NAME from the JSON on standard input, in any supported layout."""
    text = open_standard_input().read().decode("utf-8", "surrogateescape")
    made = parse_profile(name, parse_object(text, "standard input"), {}, "standard input")
    source = work.sources.get(made.plugin)
    if pin:
        present = _fetch_service(work, made, source)
        made = replace(made, fields={**made.fields, **make_contract_fields(present.tools, present.recorded)})
        if work.context.blobs is not None:
            store_snapshot(present.tools, work.context.blobs)
    _save_profile(made, examples, project)


def _save_new(work: ClientSession, made: Profile, address: str, minimal: bool, project: bool) -> None:
    """Write a profile that works as it would be written. Raises ProfileError for another one, and writes nothing."""
    present, source = open_profiles(made.plugin).preview(made, project), work.sources.get(made.plugin)
    if not minimal:
        result = source.validates(present, work.context)
        if result.status == "error":
            raise ProfileError(f"@{made.name}", "", f"no profile is written, because it would fail: {result.message}")
        if result.status == "changed":
            write_note(
                f"{address}: the server gave other tools when it was asked again; the profile has the first ones"
            )
    elif isinstance(source, HttpSource):
        source.check_document(present, work.context)
    _save_profile(made, None, project)


def _save_profile(made: Profile, examples: bool | None, project: bool) -> None:
    directory = open_profiles(made.plugin).save(made, examples, project)
    for path in sorted(directory.glob("*.json")):
        click.echo(str(path))


@profile.command(
    "new",
    epilog=with_examples(
        'patchbay profile new mcp time "mcp+uvx://mcp-server-time/mcp-server-time"',
        'patchbay profile new mcp time "mcp+uvx://mcp-server-time/mcp-server-time" --tool get_current_time',
        'patchbay profile new mcp clock "mcp+uvx://mcp-server-time/mcp-server-time" --minimal',
        'patchbay profile new http trials "openapi+https://api.example.org?header.X-Key=${TRIALS_KEY}"',
    ),
)
@click.argument("kind", metavar="TYPE")
@click.argument("name")
@click.argument("address", shell_complete=complete_address)
@click.option("--minimal", is_flag=True, help="Record only the address; do not contact the server.")
@click.option("--tool", "wanted", multiple=True, help="Record only this tool. Repeatable.")
@PROJECT
@with_session
def new(
    work: ClientSession, /, kind: str, name: str, address: str, minimal: bool, wanted: tuple[str, ...], project: bool
) -> None:
    """Make a profile NAME of the server at ADDRESS: its address, its tools and its contract.

    TYPE is mcp for an MCP server, http for an HTTP API (openapi+https://..., openapi+file:...).
    """
    check_name(name)
    if kind == "http":
        directory = open_profiles(PLUGIN).find_new(name, project) if project else None
        made = _make_api_profile(work, name, address, () if minimal else wanted, minimal, directory)
        _save_new(work, made, address, minimal, project)
        return
    if get_scheme(address).startswith(API_SCHEME):
        raise AddressError(
            f"{address}: expected an MCP server; an HTTP API is: {program_name()} profile new http {name} ..."
        )
    if kind != "mcp":
        work.sources.get(kind)
        raise ProfileError(
            name, "", f"expected mcp; a profile of {kind} is made with: {program_name()} profile create {name}"
        )
    target = parse_address(complete_reference(address, work.context.list_servers)).target
    if isinstance(target, Local):
        raise AddressError(f"{address}: expected a program or a URL; a server of this hub needs no profile")
    if not isinstance(target, NamedServer):
        launch = to_profile_fields(fix_folder(target, Path.cwd()) if isinstance(target, Stdio) else target)
    elif target.kind == "preset":
        launch = to_profile_fields(find_preset(target.name, *work.context.get_profiles().load_presets()))
    else:
        launch = dict(work.context.get_profiles().load(target.name).launch)
    made = parse_profile(name, {"plugin": "mcp", "server": name, **launch}, {}, "the address")
    if not minimal:
        tools = _connect(work, made).list_tools()
        unknown = sorted(set(wanted) - {tool["name"] for tool in tools})
        if unknown:
            raise AddressError(
                f"{address}: no tool {unknown[0]!r}; there are {', '.join(one['name'] for one in tools)}"
            )
        made = record_contract(made, tools, wanted)
        if work.context.blobs is not None:
            store_snapshot(tools, work.context.blobs)
    _save_new(work, made, address, minimal, project)


def _connect(work: ClientSession, what: Profile) -> Connection:
    """Connect to the MCP server of a profile. Raises Unreachable, McpFailure, ProfileError."""
    source, target = work.sources.get("mcp"), get_target(what, work.context.environ)
    if isinstance(source, McpSource):
        return source.open_connection(target, work.context)
    return work.context.connections.get(target)


def _make_api_profile(
    work: ClientSession, name: str, address: str, wanted: Sequence[str], minimal: bool, directory: Path | None
) -> Profile:
    """Make a profile of the HTTP API at an address; `directory` is that of a project's profile. Raises AddressError."""
    source = work.sources.find(address, work.context)
    if not isinstance(source, HttpSource) or address.startswith("@"):
        raise AddressError(f"{address}: expected an HTTP API: openapi+https://HOST/PATH or openapi+file:PATH")
    connection = fix_document(make_connection_fields(address), Path.cwd(), directory)
    made = parse_profile(name, {"plugin": "http", "connection": connection}, {}, "the address")
    made = replace(made, directory=directory)
    if minimal:
        return made
    operations = source.list_operations(made, work.context)
    for one in wanted:
        if one not in operations:
            raise AddressError(f"{address}: {describe_unknown_name(one, list(operations), 'operation')}")
    tools = [dict(one.tool) for one in operations.values()]
    full_profile = update_endpoints(made, operations, None, True).profile
    kept_tools = {key: row for key, row in full_profile.tools.items() if not wanted or key in wanted}
    if work.context.blobs is not None:
        store_snapshot(tools, work.context.blobs)
    return replace(
        full_profile, tools=kept_tools, fields={**full_profile.fields, **make_contract_fields(tools, kept_tools)}
    )


@profile.command(
    "update",
    epilog=with_examples(
        "patchbay profile update time",
        "patchbay profile update @time --yes",
        "patchbay profile update time --examples --no-test",
        after=TIME_PROFILE,
    ),
)
@REFERENCE
@click.option("--yes", is_flag=True, help="Answer every question with yes.")
@click.option(
    "--examples/--no-examples",
    "examples",
    default=None,
    help="Update the examples for renamed tools and arguments, or not.",
)
@click.option("--test/--no-test", "test", default=None, help="Run a reference of the profile afterwards, or not.")
@click.option("--all-tools", "everything", is_flag=True, help="Also record tools that the profile does not have.")
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them.")
@with_session
def update(
    work: ClientSession,
    /,
    reference: str,
    yes: bool,
    examples: bool | None,
    test: bool | None,
    everything: bool,
    dry_run: bool,
) -> None:
    """Update a profile to the current contract of its server. Asks on a terminal; options answer elsewhere."""
    what, source, home = find_profile(work, reference)
    if source.name not in UPDATABLE_PLUGINS:
        problem = f"expected {' or '.join(UPDATABLE_PLUGINS)}; profiles of {source.name} have no schema to update"
        raise ProfileError(f"@{what.name}", "plugin", f"{problem} (use profile validate to check the profile)")
    examples, test = (True if yes and one is None else one for one in (examples, test))
    asks = examples is None or test is None
    if asks and not dry_run and not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("there is no terminal to ask; use --yes, or --[no-]examples and --[no-]test")
    click.echo(f"Connecting to {what.name} {UPDATABLE_PLUGINS[source.name]}...")
    present = _fetch_service(work, what, source, lambda: click.echo("Fetching current tool schemas...\n"))
    blobs = work.context.blobs
    cid = what.schema_cid
    before = load_snapshot(cid, blobs) if cid is not None and blobs is not None and not blobs.missing([cid]) else None
    plan = present.plan(before, everything)
    _print_plan(plan)
    if dry_run:
        return
    follow = click.confirm("Update examples in profile?", True, err=True) if examples is None else examples
    if not follow:
        plan = present.plan(before, everything, examples=False)
    if blobs is not None:
        store_snapshot(present.tools, blobs)
    directory = home.save(plan.profile, project=_is_project_profile(what))
    click.echo(f"\nUpdated profile saved to {directory}/\nNew schema hash: {plan.profile.schema_hash}\n")
    _test_profile(work, plan.profile, test)
    click.echo("Profile updated successfully.")


@dataclass(frozen=True)
class PresentService:
    """The current state of a service: its tools, the recorded tools by name, and a function that plans an update."""

    tools: Sequence[Tool]
    recorded: Mapping[str, Mapping[str, Any]]
    plan: Callable[..., ProfileUpdate]


def _fetch_service(
    work: ClientSession, what: Profile, source: Source, asking: Callable[[], None] = lambda: None
) -> PresentService:
    """Fetch the tools of a profile's service. Raises ProfileError for a service without a contract."""
    if isinstance(source, HttpSource):
        asking()
        operations = source.list_operations(what, work.context)
        tools = [one.tool for one in operations.values()]
        return PresentService(
            tools, add_endpoint_tools(what, operations).tools, partial(update_endpoints, what, operations)
        )
    if source.name != "mcp":
        raise ProfileError(f"@{what.name}", "plugin", f"expected {' or '.join(UPDATABLE_PLUGINS)}, got {source.name}")
    connection = _connect(work, what)
    asking()
    found = connection.list_tools()
    return PresentService(found, what.tools, partial(update_profile, what, found))


def _print_plan(plan: ProfileUpdate) -> None:
    click.echo("Changes detected:" if plan.changes else "No changes.")
    for line in format_changes(plan.changes):
        click.echo(line)
    click.echo("\nUpdate strategy:")
    for number, step in enumerate(plan.steps, 1):
        click.echo(f"  {number}. {step}")
    click.echo("")


def _test_profile(work: ClientSession, what: Profile, test: bool | None) -> None:
    references = list(what.fields.get("tested_with", ()))[:1]
    if test is False:
        return
    if not references:
        write_note("No test: the profile has no field tested_with.")
        return
    if test is None and not click.confirm("Test updated profile?", True, err=True):
        return
    if not try_references(work, what.name, references):
        write_note("Profile updated, but the test failed.")
        sys.exit(exit_codes.FAILED)


def _is_project_profile(what: Profile) -> bool:
    """Whether a profile is in the project's directory. An update of a bundled profile goes to the user's directory."""
    return what.directory is not None and what.directory.is_relative_to(Path.cwd() / ".jn")


PROFILES = profile
"""The group `profile` with all its commands."""


@profile.command("remove", epilog=with_examples("patchbay profile remove @time", after=TIME_PROFILE))
@REFERENCE
def remove(reference: str) -> None:
    """Remove a profile of the project or the user. The file moves to the directory .deleted beside the profiles."""
    with exit_on_error():
        name = reference.removeprefix("@")
        plugins = _list_plugins_with(name)
        click.echo(f"Moved to {open_profiles(plugins[0] if plugins else 'mcp').delete(name)}")
        write_note(f"`{program_name()} profile restore @{name}` brings it back.")


@profile.command(
    "restore",
    epilog=with_examples("patchbay profile restore @time", after=f"{TIME_PROFILE} and `patchbay profile remove time`"),
)
@REFERENCE
@click.argument("time", default="")
def restore(reference: str, time: str) -> None:
    """Bring back a removed profile, or the version of TIME (without TIME the newest) of a profile.

    `profile info` lists the versions. The present files become a version.
    """
    with exit_on_error():
        name = reference.removeprefix("@")
        plugins = _list_plugins_with(name)
        profiles = [open_profiles(one) for one in plugins[:1] or make_sources().list_names()]
        click.echo(f"Restored {_restore_first(profiles, name, time)}")


def _list_plugins_with(name: str) -> list[str]:
    """List the plugins that have a profile of this name."""
    return [one for one in make_sources().list_names() if name in open_profiles(one).find_directories()]


def _restore_first(candidates: Sequence[Profiles], name: str, time: str) -> Path:
    """Restore the profile in the first plugin that has it. Raises the error of the first plugin without one."""
    problems: list[ProfileError] = []
    for profiles in candidates:
        try:
            return profiles.restore(name, time)
        except ProfileError as problem:
            problems.append(problem)
    raise problems[0]
