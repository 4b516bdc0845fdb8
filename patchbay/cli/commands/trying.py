"""The command `patchbay try`: one run of a program in full confinement, and the definition that would mount it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.catalogue.operating.proposed_lines import describe_proposal, format_line, propose_lines
from patchbay.catalogue.watching.mount_files import check_mount, write_mount
from patchbay.cli.client_session import SECONDS, open_session
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.programs.rights import SETTINGS, make_fields, take_permissions, with_program_rights
from patchbay.cli.programs.trial import Trial, Tried, list_folders_to_write, try_program
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import make_printable, write_note
from patchbay.cli.typed_addresses import resolve_explored
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.formatting import format_address
from patchbay.client.addresses.resolution import resolve_address
from patchbay.client.addresses.secrets import is_secret, is_secret_name
from patchbay.client.addresses.targets import AddressError, Stdio
from patchbay.client.connection.connection import START_TIMEOUT_SECONDS
from patchbay.client.source import get_scheme
from patchbay.errors import ConfigError, PatchbayError
from patchbay.kinds.program_proposals import Proposal, with_proposal
from patchbay.settings import Settings, hub_places, whole_environment
from patchbay.terminal import is_terminal

Json = dict[str, Any]


@click.command(
    "try",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=exit_codes.with_examples(
        "patchbay try mcp+npx://@modelcontextprotocol/server-memory",
        "patchbay try uvx mcp-server-git --repository ~/work",
        "patchbay try --save files npx -y @modelcontextprotocol/server-filesystem ~/notes",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="ADDRESS|COMMAND...")
@click.option("--save", default="", metavar="NAME", help="Write the definition into the servers folder as NAME.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--start-timeout",
    type=SECONDS,
    metavar="SECONDS",
    default=START_TIMEOUT_SECONDS,
    help=f"Time limit for the start with its download [default {START_TIMEOUT_SECONDS:g}].",
)
@with_program_rights
@with_settings_in_help("servers", without=SETTINGS)
@click.pass_context
def try_command(
    context: click.Context, /, words: tuple[str, ...], save: str, is_json: bool, start_timeout: float, **rights: Any
) -> None:
    """Run a program once, confined, and say what it tried.

    It gets an empty folder, and its tools are listed. No tool is called, and nothing of it stays on the disk. The
    command prints which private places it tried to read, what it tried to change, what it reached, and the definition
    that would mount it. A machine that cannot confine it does not run it. With --confine off it has all rights of your
    user: what it tried is not recorded, and what it changed stays. Options stand before ADDRESS.
    """
    with exit_on_error():
        settings, permissions = load_settings(context), take_permissions(rights)
        target, place = _find_program(words)
        fields = {"kind": "upstream", **place, **make_fields(permissions)}
        check_mount(save or "tried", fields, "the definition")
        trial = try_program(target, settings, whole_environment(), permissions, start_timeout)
        proposal = propose_lines(fields, settings, Path.cwd())
        definition = with_proposal(fields, proposal)
        wanted = list_folders_to_write(trial.tried, whole_environment(), hub_places(settings))
        if is_json:
            click.echo(orjson.dumps(_as_json(trial, proposal, definition, wanted)).decode())
        else:
            click.echo(make_printable("\n".join(_report(trial, proposal, definition, wanted))))
        if trial.failure is not None:
            raise _with_hint(trial.failure, proposal, wanted)
        if save:
            _save(settings, save, definition, wanted)


def _find_program(words: Sequence[str]) -> tuple[Stdio, Json]:
    """Return the program of an address, or of a command line, and the fields of a mount that name it.

    Raises AddressError.
    """
    is_line = len(words) > 1 or (" " in words[0] and not get_scheme(words[0]))
    line = shlex.join(words) if len(words) > 1 else words[0]
    with open_session() as work:
        text = (
            f"mcp+stdio:{line.replace('%', '%25')}"
            if is_line
            else resolve_explored(line, work.sources, work.context, False)
        )
        address = parse_address(text)
        target = resolve_address(address, work.context.get_profiles(), work.context.environ).target
    if not isinstance(target, Stdio):
        raise AddressError(f"{target.label}: expected a program; `patchbay inspect {target.label}` shows a server")
    written = address.target if isinstance(address.target, Stdio) else target
    return target, _name_program(text if not is_line else format_address(written), written)


def _name_program(text: str, written: Stdio) -> Json:
    """Return the fields of a mount for an address: as it is, if a mount may have it.

    Otherwise it names no operation, and a secret in it becomes a reference to a variable of the hub.
    """
    try:
        check_mount("tried", {"kind": "upstream", "address": text}, "the definition")
        return {"address": text}
    except ConfigError:
        given = {
            name: f"${{{name}}}" if is_secret_name(name) and is_secret(name, value) and "${" not in value else value
            for name, value in written.env.items()
        }
        return {"address": format_address(written)} | ({"environment": given} if given else {})


def _with_hint(failure: PatchbayError, proposal: Proposal, wanted: Sequence[str]) -> PatchbayError:
    """Return the failure of a program with the options of another run that allows what it named and tried."""
    options = [f"--reads {shlex.quote(one)}" for one in proposal.fields.get("reads", ())]
    options += [f"--writes {shlex.quote(one)}" for one in dict.fromkeys((*proposal.fields.get("writes", ()), *wanted))]
    options += [f"--needs {proposal.fields['needs']}"] if "needs" in proposal.fields else []
    if not options:
        return failure
    return type(failure)(f"{failure.message}\nNext: `patchbay try {' '.join(options)} ...` runs it with these lines")


def _as_json(trial: Trial, proposal: Proposal, definition: Mapping[str, Any], wanted: Sequence[str]) -> Json:
    tried = trial.tried
    return {
        "tools": trial.tools,
        "failure": trial.failure.message if trial.failure is not None else None,
        "tried": {
            "reads": tried.reads,
            "writes": tried.writes,
            "reaches": tried.reaches,
            "complete": not tried.missing,
            "missing": tried.missing,
        },
        "wanted": list(wanted),
        "refused": list(proposal.refused),
        "definition": dict(definition),
    }


def _report(trial: Trial, proposal: Proposal, definition: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[str]:
    yield f"Tools: {len(trial.tools)}"
    for tool in trial.tools:
        first = str(tool.get("description") or "").strip().partition("\n")[0]
        yield f"  {tool.get('name')}{f': {first}' if first else ''}"
    yield from _report_tried(trial.tried)
    for folder in wanted:
        yield f"  To allow it: --writes {shlex.quote(folder)}, or {format_line('writes', [folder])} in its file"
    yield from describe_proposal(proposal, "What its command line and its variables name:")
    yield "Definition:"
    yield orjson.dumps(definition, option=orjson.OPT_INDENT_2).decode()


def _report_tried(tried: Tried) -> Iterator[str]:
    if tried.missing:
        yield tried.missing
    rows = (
        *(f"  read {one}: it is hidden" for one in tried.reads),
        *(f"  change {one}: refused" for one in tried.writes),
        *(f"  reach {one}" for one in tried.reaches),
    )
    if rows:
        yield "What it tried outside its own folder:"
        yield from rows
    elif not tried.missing:
        yield "It tried nothing outside its own folder."


def _save(settings: Settings, name: str, definition: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Write the mount; what the program tried to change is opened only if the user says so."""
    fields = dict(definition)
    opened = [one for one in wanted if one not in fields.get("writes", ())]
    if opened and is_terminal(sys.stdin):
        question = f"It tried to change {', '.join(opened)}. Allow that?"
        if click.confirm(make_printable(question), default=False, err=True):
            fields["writes"] = [*fields.get("writes", ()), *opened]
    file = write_mount(settings.servers, name, fields, False, "`patchbay mount --replace`")
    write_note(f"{file} mounts it; a hub that watches {file.parent} serves it at /mcp/{name}")
