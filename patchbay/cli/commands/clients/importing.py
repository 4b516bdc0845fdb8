"""The command `patchbay import`: servers that MCP clients have configured become mounts of this hub.

Nothing is started and no client's file is changed. Secrets become variables of the hub's environment; paths,
identifiers and switches stay. A server that is here already can be imported again.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.catalogue.operating.proposed_lines import format_line, propose_lines
from patchbay.catalogue.servers.rows import name_problem
from patchbay.catalogue.watching.mount_files import check_mount, is_mount, write_mount
from patchbay.cli.commands.clients.choices import (
    complete_client,
    complete_source,
    load_reached_settings,
    machine,
)
from patchbay.cli.options import with_settings_in_help
from patchbay.cli.programs.proposals import add_proposed_lines
from patchbay.cli.secret_storing import note_unstored, store_secrets
from patchbay.cli.terminal.messages import fail, format_rows, make_printable, write_note
from patchbay.client.applications.applications import ROWS, find_application
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.mounted import Fields, find_mount, is_outdated, renew_mount
from patchbay.client.applications.mounts import Known, Variables, mount_fields, mount_name
from patchbay.client.applications.reading import (
    ClientFile,
    client_file,
    guess_file,
    is_own,
    list_files,
    read_entries,
)
from patchbay.client.applications.references import Inexpressible
from patchbay.client.profiles.files import replace_file
from patchbay.errors import ConfigError, PatchbayError
from patchbay.settings import Settings
from patchbay.terminal import is_terminal


@dataclass(frozen=True, slots=True)
class Found:
    """A server of a client. `reason` says why it is not imported; empty for one that can be.

    `here` is the name of the mount that serves it already, and `is_stale` says that an import writes it anew even if
    the user does not name it. `lacks` are the lines that this mount lacks for what its command line names.
    """

    entry: Entry
    client: str
    address: str = ""
    reason: str = ""
    here: str = ""
    is_stale: bool = False
    lacks: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """One word or two for the list."""
        if self.reason:
            return "cannot be imported"
        return "already here" if self.here else "on" if self.entry.enabled else "switched off"


@click.command(
    "import",
    epilog=exit_codes.with_examples(
        "patchbay import",
        "patchbay import --all --store-secrets",
        "patchbay import --all --env-file hub.env",
        "patchbay import cursor",
        "patchbay import cursor --all --dry-run",
    ),
)
@click.argument("source", default="", metavar="[CLIENT|FILE]", shell_complete=complete_source)
@click.argument("names", nargs=-1, metavar="[SERVER]...")
@click.option(
    "--client", default="", metavar="CLIENT", shell_complete=complete_client, help="The client whose file FILE is."
)
@click.option(
    "--project", is_flag=True, help="Read the files of the project in this folder, such as .mcp.json, instead."
)
@click.option("--all", "everything", is_flag=True, help="Import every server that can be imported.")
@click.option(
    "--plain",
    multiple=True,
    metavar="NAME",
    help="Write the value of this variable or header into the mount: it is not a secret.",
)
@click.option(
    "--secret",
    multiple=True,
    metavar="NAME",
    help="Write a reference in place of the value of this variable or header.",
)
@click.option(
    "--store-secrets", is_flag=True, help="Store the secrets in the hub, each for its server; on a terminal it asks."
)
@click.option(
    "--env-file", type=click.Path(path_type=Path), help="Write the variables with their values into this file."
)
@click.option("--dry-run", is_flag=True, help="Show the definitions and write nothing.")
@with_settings_in_help("data", "servers", "port")
@click.pass_context
def import_command(context: click.Context, /, source: str, names: tuple[str, ...], **given: Any) -> None:
    """Mount servers that MCP clients have configured. Without a choice, list them.

    Without CLIENT or FILE, the command reads your own files of all clients. --project reads the files of a project,
    which another person may have written: check the programs. Values that look like secrets become references to
    variables: store them in the hub, or set them in its environment. Paths, identifiers and switches stay. What the hub
    does not take over is named with the reason. A server that is already here is imported again when you name it.
    """
    try:
        settings = load_reached_settings(context)
        known = {**dict.fromkeys(given["plain"], False), **dict.fromkeys(given["secret"], True)}
        found = list(_find(settings, _files(source, given["project"], given["client"]), bool(source), known))
        if not found:
            _echo("No client of this machine has configured a server." if not source else f"{source} has no servers.")
            return
        _print_list(found)
        chosen = _choose(found, names, given["everything"])
        if not chosen:
            return
        if given["env_file"] is not None and given["env_file"].exists():
            raise ConfigError(str(given["env_file"]), "", "expected a new file for --env-file, but this file exists")
        is_whole = _mount(settings, chosen, known, given["dry_run"], given["env_file"], given["store_secrets"])
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    if not is_whole:
        sys.exit(exit_codes.USAGE)


def _find(settings: Settings, files: Sequence[ClientFile], is_named: bool, known: Known) -> Iterator[Found]:
    """Yield every server of the files. A file that cannot be read is an error when the user named it, else a note."""
    seen: dict[Any, str] = {}
    mounted = _read_mounts(settings.servers)
    for file in files:
        try:
            entries = read_entries(file, machine())
        except ConfigError as problem:
            if is_named:
                raise
            write_note(f"{problem.message}; it is left out")
            continue
        for entry in entries:
            yield _judge(entry, file.application.name, settings, seen, mounted, known)


def _files(source: str, project: bool, client: str) -> list[ClientFile]:
    """Return the files of a source: all clients when it is empty, a file (of `client`), or a client."""
    path = Path(source).expanduser()
    if source and path.is_file():
        return [client_file(path, find_application(client)) if client else _guess(path)]
    if client and not source:
        raise ConfigError("--client", "", f"expected a FILE before it; without one: `patchbay import {client}`")
    if "/" in source or path.suffix:
        raise ConfigError(source, "", "expected a file or a client, but there is no such file")
    if client:
        raise ConfigError(source, "", "expected the path of a file before --client, but there is no such file")
    rows = [find_application(source)] if source else ROWS
    listed = [file for row in rows for file in list_files(row, machine(), Path.cwd()) if bool(file.project) == project]
    by_path: dict[Path, ClientFile] = {}
    for file in listed:
        by_path.setdefault(file.path, file)
    found = list(by_path.values())
    if source and not any(file.path.exists() for file in found):
        where = f" {found[0].path}" if found else " for a project"
        raise ConfigError(source, "", f"expected its settings file{where}, but there is no such file")
    return found


def _guess(path: Path) -> ClientFile:
    """Return a file as that of the client whose form it has; say which one when other clients have this form too."""
    found = guess_file(path, machine())
    if not found.is_certain:
        title = found.file.application.title
        write_note(f"{path} is read as a file of {title}; if it is that of another client, add --client")
    return found.file


def _judge(
    entry: Entry, client: str, settings: Settings, seen: dict[Any, str], mounted: dict[str, Fields], known: Known
) -> Found:
    if is_own(entry.target, settings.port):
        return Found(entry, client, reason="this hub itself")
    try:
        fields = mount_fields(entry, entry.name, Variables(), known)
        check_mount(entry.name, fields, entry.name)
        address = str(fields["address"])
    except Inexpressible as problem:
        return Found(entry, client, reason=str(problem))
    except ConfigError as problem:
        return Found(entry, client, reason=f"{problem.path}: {problem.expected}")
    if entry.target in seen:
        return Found(entry, client, address, f"the same as {seen[entry.target]}")
    seen[entry.target] = f"{entry.name} of {client}"
    here = find_mount((entry.name, f"{entry.name}-{client}"), fields, mounted)
    if not here:
        return Found(entry, client, address)
    mount = mounted.pop(here)
    lacks = _find_lacking(renew_mount(mount, fields), settings)
    return Found(entry, client, address, here=here, is_stale=is_outdated(mount, fields), lacks=lacks)


def _find_lacking(fields: Fields, settings: Settings) -> tuple[str, ...]:
    """Return the lines that a mount lacks; none for a mount that cannot be read."""
    try:
        check_mount("", fields, "the mount")
        proposal = propose_lines(fields, settings, Path.cwd())
    except ConfigError:
        return ()
    return tuple(format_line(name, value) for name, value in proposal.fields.items())


def _read_mounts(folder: Path) -> dict[str, Fields]:
    """Return the definitions of the mounts in the folder by name."""
    found = [file for file in sorted(folder.glob("*.json")) if is_mount(file)] if folder.is_dir() else []
    return {file.stem: orjson.loads(file.read_bytes()) for file in found}


def _print_list(found: Sequence[Found]) -> None:
    rows = [("", "CLIENT", "SERVER", "STATE", "ADDRESS OR REASON")]
    for number, one in enumerate(found, 1):
        where = one.reason or (f"as {one.here}: {one.address}" if one.here else one.address)
        rows.append((str(number), one.client, one.entry.name, one.state, where))
    _echo(format_rows(rows))
    for one in found:
        if one.lacks:
            _echo(
                f"{one.here} lacks {', '.join(one.lacks)}, which its command line names: import {one.entry.name} again"
            )
    kept = [one for one in found if not one.reason and (one.entry.notes or one.entry.sign_in is not None)]
    if not kept:
        return
    _echo("Not taken over, or done in another way:")
    for one in kept:
        for name, reason in one.entry.notes:
            _echo(f"  {one.client} {one.entry.name}: {name}: {reason}")
        if one.entry.sign_in is not None:
            _echo(f"  {one.client} {one.entry.name}: each caller signs in on a page of the hub, /upstreams/NAME")


def _choose(found: Sequence[Found], names: Sequence[str], everything: bool) -> list[Found]:
    possible = [one for one in found if not one.reason and (not one.here or one.is_stale)]
    if everything:
        kept = [one.here for one in found if one.here and not one.is_stale]
        if kept:
            write_note(f"Already here, and left as they are: {', '.join(kept)}. Name a server to import it again")
        return possible
    if not names and not possible:
        write_note(_explain_nothing(found))
        return []
    if not names and not is_terminal(sys.stdin):
        write_note("Nothing imported yet. Name servers, or add --all")
        return []
    if not names:
        answer = click.prompt("Import which? Numbers, names or all; Enter stops", default="", show_default=False)
        names = answer.replace(",", " ").split()
        if names == ["all"]:
            return possible
    chosen = []
    for name in names:
        matches = [one for number, one in enumerate(found, 1) if name in (one.entry.name, str(number))]
        if not matches:
            raise ConfigError("SERVER", "", f"expected a server of the list, got {name!r}")
        usable = [one for one in matches if not one.reason]
        if not usable:
            raise ConfigError(name, "", f"it is not imported: {matches[0].reason}")
        chosen += [one for one in usable if one not in chosen]
    return chosen


def _explain_nothing(found: Sequence[Found]) -> str:
    """Return why a list has no server to import, and what can be done."""
    here = next((one for one in found if one.here), None)
    if here is None:
        return "None of these servers can be imported: the last column says why"
    others = "; the last column says why the others cannot be imported" if any(one.reason for one in found) else ""
    return f"Already here{others}. To import a server again, name it: {here.entry.name}"


def _mount(
    settings: Settings,
    chosen: Sequence[Found],
    known: Known,
    dry_run: bool,
    env_file: Path | None,
    stores_secrets: bool,
) -> bool:
    """Write the mounts; store their secrets, or say which variables to set. Return whether all mounts are written."""
    variables, taken, is_whole = Variables(), set[str](), True
    mounted = _read_mounts(settings.servers)
    for one in chosen:
        name = one.here or mount_name(one.entry, one.client, lambda name: _is_taken(settings.servers, name, taken))
        fields = mount_fields(replace(one.entry, name=name), name, variables, known)
        fields = renew_mount(mounted[name], fields) if one.here else fields
        taken.add(name)
        if name != one.entry.name and not one.here:
            _echo(f"{one.entry.name} of {one.client} is mounted as {name}: its own name is taken or not allowed")
        try:
            check_mount(name, fields, f"{name}.json")
            fields = add_proposed_lines(fields, settings, name, asks=not dry_run)
            if dry_run:
                text = orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode()
                _echo(f"{settings.servers / f'{name}.json'}: {text}")
                continue
            file = write_mount(settings.servers, name, fields, replace=bool(one.here))
        except ConfigError as problem:
            write_note(f"{one.entry.name} of {one.client} is left out: {problem.message}")
            is_whole = False
            continue
        again = "again, as the client has it now" if one.here else f"of {one.client}"
        _echo(f"{file} mounts {one.entry.name} {again}; a hub that watches the folder serves /mcp/{name}")
    if not dry_run and variables.values and (stores_secrets or (env_file is None and _wants_to_store(variables))):
        is_whole = _store(settings, variables) and is_whole
        variables.values.clear()
    _tell_variables(variables, None if dry_run else env_file)
    if dry_run:
        write_note("Nothing is written (--dry-run)")
    return is_whole


def _echo(text: str) -> None:
    click.echo(make_printable(text))


def _is_taken(folder: Path, name: str, taken: set[str]) -> bool:
    return bool(name in taken or name_problem(name) or list(folder.glob(f"{name}.*")))


def _wants_to_store(variables: Variables) -> bool:
    """Ask on a terminal whether the hub stores the secrets; False without one."""
    names = ", ".join(sorted(variables.values))
    return is_terminal(sys.stdin) and click.confirm(make_printable(f"Store {names} in the hub?"), default=True)


def _store(settings: Settings, variables: Variables) -> bool:
    """Store the secrets of the imported servers; return whether all of them are stored."""
    stored, left = store_secrets(settings, variables.values, variables.servers)
    if stored:
        _echo(f"Stored in the hub, each for its server alone: {', '.join(stored)} (`patchbay secret list`)")
    note_unstored(left)
    return not left


def _tell_variables(variables: Variables, env_file: Path | None) -> None:
    if variables.values and env_file is not None:
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(variables.values.items()))
        replace_file(env_file, text.encode())
        _echo(f"Wrote {len(variables.values)} variables into {env_file}, which only you can read. Start the hub with")
        _echo(f"  set -a; . {shlex.quote(str(env_file))}; set +a; patchbay serve")
    elif variables.values:
        _echo("Store these variables with `patchbay secret set`, or set them in the environment of the hub;")
        _echo("--store-secrets stores them with their values, --env-file writes them into a file:")
        for name in sorted(variables.values):
            _echo(f"  {name}")
    if variables.missing:
        _echo("Set these variables too; only you or the client know their values:")
        for name in variables.missing:
            _echo(f"  {name}")
