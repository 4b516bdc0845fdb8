"""The commands `mcp explore`, `tools`, `schema`, `hash`, `skills` and `skill`: explore a server, and get its skills."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from patchbay.cli.client_session import ClientSession, with_session
from patchbay.cli.completion.values import complete_address, complete_schema_tool
from patchbay.cli.records.output import emit, print_json
from patchbay.cli.terminal.messages import make_printable, write_note
from patchbay.cli.typed_addresses import complete_reference, resolve_explored, with_headers
from patchbay.client.addresses.targets import AddressError
from patchbay.client.connection.connection import Connection
from patchbay.client.contracts.contract import calculate_schema_hash, compute_contract_cid
from patchbay.client.sources.mcp import McpSource
from patchbay.client.sources.records import make_list_records
from patchbay.client.sources.skill_folders import save_skill
from patchbay.client.sources.skills import find_skill, get_skill_name, list_skills, load_files, load_skill
from patchbay.exit_codes import TIME_PROFILE, with_examples
from patchbay.suggestions import describe_unknown_name
from patchbay.terminal import is_terminal

ADDRESS = click.argument("address", shell_complete=complete_address)


SKILLS = "a server crafts whose configuration has skills (docs/definitions.md)"


@click.group(
    "mcp",
    epilog=with_examples(
        'patchbay mcp explore "mcp+uvx://mcp-server-time/mcp-server-time"',
        "patchbay mcp hash @time",
        after=TIME_PROFILE,
    ),
)
def mcp() -> None:
    """Explore an MCP server before you make a profile of it."""


@mcp.command(
    "explore",
    epilog=with_examples('patchbay mcp explore "mcp+uvx://mcp-server-time/mcp-server-time" > schema.json'),
)
@ADDRESS
@with_session
@with_headers
def explore(work: ClientSession, /, address: str) -> None:
    """Print a server as one JSON object: tools with their schemas, resources, prompts, hash."""
    address = resolve_explored(address, work.sources, work.context)
    print_json(work.sources.find(address, work.context).explores(address, work.context))


@mcp.command("tools", epilog=with_examples('patchbay mcp tools "mcp+uvx://mcp-server-time/mcp-server-time"'))
@ADDRESS
@with_session
@with_headers
def tools(work: ClientSession, /, address: str) -> None:
    """Write the tools of a server, one record each."""
    for record in make_list_records("tools", _tools(work, address)):
        emit(record)


@mcp.command(
    "schema", epilog=with_examples('patchbay mcp schema "mcp+uvx://mcp-server-time/mcp-server-time" get_current_time')
)
@ADDRESS
@click.argument("tool", shell_complete=complete_schema_tool)
@with_session
@with_headers
def schema(work: ClientSession, /, address: str, tool: str) -> None:
    """Print the description and the schemas of one TOOL."""
    found = {one["name"]: one for one in _tools(work, address)}
    if tool not in found:
        raise AddressError(f"{address}: {describe_unknown_name(tool, list(found))}")
    print_json(found[tool])


@mcp.command(
    "hash",
    epilog=with_examples(
        'patchbay mcp hash "mcp+uvx://mcp-server-time/mcp-server-time"',
        "patchbay mcp hash @time --kind cid",
        after=TIME_PROFILE,
    ),
)
@ADDRESS
@click.option(
    "--kind",
    type=click.Choice(["sha256", "md5", "cid"]),
    help="Print only one: the hash in profiles (sha256), that of JN over all tools (md5), or the CID of the contract.",
)
@with_session
@with_headers
def hash_(work: ClientSession, /, address: str, kind: str | None) -> None:
    """Print the hash of a server's tools and the CID of their contract. Both change with the contract.

    The hash of a profile covers the tools and parameters that it records, as its field schema_hash does. The CID goes
    to standard error, so that scripts read only the hash. A call whose address contains schema=CID is refused when the
    server has another contract.
    """
    found = _tools(work, address)
    if kind == "cid":
        click.echo(compute_contract_cid(found))
    elif kind == "md5":
        click.echo(calculate_schema_hash(found))
    else:
        address = complete_reference(address, work.context.list_servers)
        click.echo(work.sources.find(address, work.context).versions(address, work.context))
    if kind is None:
        write_note(f"Digest of the tools: {compute_contract_cid(found)}")


@mcp.command("skills", epilog=with_examples("patchbay mcp skills http://127.0.0.1:8000/mcp/crafts", after=SKILLS))
@ADDRESS
@with_session
@with_headers
def skills(work: ClientSession, /, address: str) -> None:
    """Write the skills of a server, one record each, with the sizes and digests of their files. No file is read."""
    for record in make_list_records("skills", list_skills(_connect(work, address))):
        emit(record)


@mcp.command(
    "skill",
    epilog=with_examples(
        "patchbay mcp skill http://127.0.0.1:8000/mcp/crafts weave",
        "patchbay mcp skill http://127.0.0.1:8000/mcp/crafts weave --save ~/.claude/skills",
        after=SKILLS,
    ),
)
@ADDRESS
@click.argument("name")
@click.option(
    "--save",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write all files of the skill to a new folder DIRECTORY/NAME.",
)
@with_session
@with_headers
def skill(work: ClientSession, /, address: str, name: str, save: Path | None) -> None:
    """Print the SKILL.md of the skill NAME. Files that differ from their digests are refused.

    NAME is the name of the skill or the URI of its SKILL.md.
    """
    connection = _connect(work, address)
    entry = find_skill(connection, name)
    if save is None:
        text = load_skill(connection, entry)
        click.echo(make_printable(text) if is_terminal(sys.stdout) else text, nl=False)
    else:
        folder = save_skill(save, get_skill_name(entry), dict(load_files(connection, entry)))
        write_note(f"Saved {folder}. Read its files before a model uses them: they are instructions.")


def _connect(work: ClientSession, text: str) -> Connection:
    """Connect to the MCP server of an address. Raises AddressError for the address of anything else."""
    address = complete_reference(text, work.context.list_servers)
    source = work.sources.find(address, work.context)
    if not isinstance(source, McpSource):
        raise AddressError(f"{text}: only MCP servers have skills; expected the address of one")
    return source.connect(address, work.context)


def _tools(work: ClientSession, text: str) -> list[dict[str, Any]]:
    """The tools of an MCP server, or the operations of an HTTP API as tools."""
    address = complete_reference(text, work.context.list_servers)
    source = work.sources.find(address, work.context)
    if isinstance(source, McpSource):
        return source.list_tools(address, work.context)
    tools: list[dict[str, Any]] = source.inspects(address, work.context).get("tools", [])
    return tools
