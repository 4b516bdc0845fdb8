"""`mcp explore|tools|schema|hash`: what a server offers, for those who design a profile of it.

Thin forms of what the source contract offers for every kind of service (JN-C4). Sources: JN-63, JN-41, JN-C1.
"""

from __future__ import annotations

from typing import Any

import click

from patchbay.cli.client_session import ClientSession, with_reach
from patchbay.cli.commands.calling import pretty
from patchbay.cli.completion import addresses
from patchbay.cli.messages import note
from patchbay.cli.ndjson import emit
from patchbay.cli.typed_addresses import explored, full
from patchbay.client.addresses.targets import AddressError
from patchbay.client.contracts.contract import calculate_schema_hash, compute_contract_cid, compute_schema_hash
from patchbay.client.sources.mcp import McpSource
from patchbay.client.sources.records import make_list_records
from patchbay.client.suggestions import describe_unknown_name
from patchbay.exit_codes import with_examples

ADDRESS = click.argument("address", shell_complete=addresses)


@click.group(
    "mcp", epilog=with_examples('jn mcp explore "mcp+uvx://biomcp-python/biomcp?command=run"', "jn mcp hash @biomcp")
)
def mcp() -> None:
    """Look at an MCP server before there is a profile of it."""


@mcp.command(
    "explore",
    epilog=with_examples('jn mcp explore "mcp+uvx://biomcp-python/biomcp?command=run" > schema.json'),
)
@ADDRESS
@with_reach
def explore(work: ClientSession, /, address: str) -> None:
    """Print what a server offers, as one JSON object: tools with their schemas, resources, prompts, its hash."""
    address = explored(address, work.sources, work.context)
    pretty(work.sources.find(address, work.context).explores(address, work.context))


@mcp.command("tools", epilog=with_examples('jn mcp tools "mcp+uvx://biomcp-python/biomcp?command=run"'))
@ADDRESS
@with_reach
def tools(work: ClientSession, /, address: str) -> None:
    """Write a server's tools, one record each."""
    for record in make_list_records("tools", _tools(work, address)):
        emit(record)


@mcp.command("schema", epilog=with_examples('jn mcp schema "mcp+uvx://biomcp-python/biomcp?command=run" search'))
@ADDRESS
@click.argument("tool")
@with_reach
def schema(work: ClientSession, /, address: str, tool: str) -> None:
    """Print one TOOL as the server describes it: its description and its schemas."""
    found = {one["name"]: one for one in _tools(work, address)}
    if tool not in found:
        raise AddressError(f"{address}: {describe_unknown_name(tool, list(found))}")
    pretty(found[tool])


@mcp.command(
    "hash",
    epilog=with_examples('jn mcp hash "mcp+uvx://biomcp-python/biomcp?command=run"', "jn mcp hash @biomcp --kind cid"),
)
@ADDRESS
@click.option(
    "--kind",
    type=click.Choice(["md5", "sha256", "cid"]),
    help="Only this one: the hash of JN's profiles (md5), the same as SHA-256, or the CID of the whole contract.",
)
@with_reach
def hash_(work: ClientSession, /, address: str, kind: str | None) -> None:
    """Print the hash of a server's tools and the CID of their contract, which change when the contract does.

    The CID stands on standard error, so that scripts get the hash alone. A call with schema=CID in its address is
    refused when the contract is another one.
    """
    kinds = {"md5": calculate_schema_hash, "sha256": compute_schema_hash, "cid": compute_contract_cid}
    found = _tools(work, address)
    click.echo(kinds[kind or "md5"](found))
    if kind is None:
        note(f"Contract: {compute_contract_cid(found)}")


def _tools(work: ClientSession, text: str) -> list[dict[str, Any]]:
    """The tools of an MCP server, or the operations of an HTTP API as tools."""
    address = full(text)
    source = work.sources.find(address, work.context)
    if isinstance(source, McpSource):
        return source.list_tools(address, work.context)
    tools: list[dict[str, Any]] = source.inspects(address, work.context).get("tools", [])
    return tools
