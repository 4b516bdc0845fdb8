"""The commands `inspect`, `call`, `read` and `prompt`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from patchbay.cli.client_session import NAME_VALUE, ClientSession, with_session
from patchbay.cli.commands.pipelines import with_style, write_records
from patchbay.cli.completion.values import complete_address, complete_call, complete_prompt, complete_uri
from patchbay.cli.files.arguments import split_files
from patchbay.cli.files.results import save_contents
from patchbay.cli.records.ndjson import parse_object, read_standard_input
from patchbay.cli.records.output import FailureCounter, Style, print_json
from patchbay.cli.terminal.descriptions import format_inspection
from patchbay.cli.typed_addresses import (
    API_SCHEME,
    add_operation,
    complete_reference,
    has_operation,
    with_headers,
)
from patchbay.client.addresses.address import Address, NamedServer, Operation, parse_address
from patchbay.client.addresses.targets import AddressError, mask_url
from patchbay.client.source import Record, get_scheme
from patchbay.client.sources.mcp import McpSource
from patchbay.exit_codes import GREETER, with_examples

Json = Mapping[str, Any]

ALL_SERVERS = "/mcp"
"""The address of all servers of the hub."""

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", help="Output format [default text]."
)

OUTPUT = click.option(
    "--output",
    "-o",
    metavar="PATH",
    help="Save each result or image as a file, and write its name instead; PATH is a file or a folder.",
)


@click.command(
    "inspect",
    epilog=with_examples(
        'patchbay inspect "mcp+uvx://mcp-server-time/mcp-server-time"',
        'patchbay inspect "mcp+npx://@upstash/context7-mcp@latest"',
        "patchbay inspect /mcp/echo --format json",
        "patchbay inspect https://example.org/mcp --header 'Authorization: Bearer ${KEY}'",
    ),
)
@click.argument("address", shell_complete=complete_address)
@FORMAT
@with_session
@with_headers
def inspect(work: ClientSession, /, address: str, style: str) -> None:
    """Show what the server at ADDRESS offers.

    That is: tools, resources, templates, prompts, capabilities and the protocol revision.
    """
    address = complete_reference(address, work.context.list_servers)
    found = work.sources.find(address, work.context).inspects(address, work.context)
    work.display.clear()
    if style == "json":
        print_json(found)
    else:
        click.echo(format_inspection(found), nl=False)


@click.command(
    "call",
    epilog=with_examples(
        "patchbay call /mcp/greeter greet name=Ann",
        "patchbay call /mcp/greeter greet name=Ann --text",
        'patchbay call "/mcp/greeter/greet?name=Ann"',
        "patchbay call mcp+uvx://mcp-server-time/mcp-server-time get_current_time timezone=UTC",
        "patchbay call openapi+https://api.example.org listTrials gene=BRAF",
        'patchbay call /mcp/greeter greet --args \'{"name": "Ann"}\'',
        "echo Ann | patchbay call /mcp/greeter greet name=@-",
        "patchbay call /mcp/greeter greet name=Ann --output greeting.txt",
        'echo \'{"name": "Ann"}\' | patchbay call /mcp/greeter/greet --each',
        after=GREETER,
    ),
)
@click.argument("address", shell_complete=complete_address)
@click.argument("words", metavar="[TOOL] [NAME=VALUE]...", nargs=-1, shell_complete=complete_call)
@click.option("--args", "exact", metavar="JSON", help="Arguments as one JSON object, without type conversion.")
@with_style
@click.option(
    "--each", is_flag=True, help="Call the tool once for each record of standard input; its fields are arguments too."
)
@OUTPUT
@with_session
@with_headers
def call(
    work: ClientSession, /, address: str, words: tuple[str, ...], exact: str | None, each: bool, **shown: Any
) -> None:
    """Call a tool. ADDRESS may contain the tool and arguments; arguments after it replace arguments in it.

    NAME=@FILE gives an argument the contents of a file, NAME=@- those of standard input: as text, JSON, base64 or the
    link of an upload, as the tool asks for. NAME=@@TEXT is the text @TEXT.
    """
    checked, files = _parse_words(work, "call", "tool", address, words, each)
    arguments = {**(parse_object(exact, "--args") if exact is not None else {}), **files}
    failures = FailureCounter(shown["style"])
    if each:
        records = _write(work, checked, read_standard_input(failures.report), arguments)
    else:
        records = _read(work, checked, arguments)
    _show(records, shown["output"], failures)


@click.command(
    "read",
    epilog=with_examples(
        "patchbay read /mcp/jq jq://cheat-sheet",
        'patchbay read "/mcp/jq?resource=jq://cheat-sheet"',
    ),
)
@click.argument("address", shell_complete=complete_address)
@click.argument("uri", default="", shell_complete=complete_uri)
@with_style
@OUTPUT
@with_session
@with_headers
def read(work: ClientSession, /, address: str, uri: str, style: Style, output: str | None) -> None:
    """Read a resource. Give its URI in ADDRESS (resource=URI) or after it."""
    checked = _check_operation(
        work,
        "read",
        add_operation(complete_reference(address, work.context.list_servers), "resource" if uri else "", uri),
        address,
    )
    _show(_read(work, checked), output, FailureCounter(style))


@click.command(
    "prompt",
    epilog=with_examples(
        "patchbay prompt /mcp/markdown draft topic=tea tone=friendly",
        'patchbay prompt "/mcp/markdown?prompt=draft&topic=tea&tone=friendly"',
    ),
)
@click.argument("address", shell_complete=complete_address)
@click.argument("words", metavar="[PROMPT] [NAME=VALUE]...", nargs=-1, shell_complete=complete_prompt)
@with_style
@with_session
@with_headers
def prompt(work: ClientSession, /, address: str, words: tuple[str, ...], style: Style) -> None:
    """Get a prompt: one record for each message."""
    checked, files = _parse_words(work, "prompt", "prompt", address, words)
    _show(_read(work, checked, files), None, FailureCounter(style))


def _show(records: Iterable[Record], output: str | None, failures: FailureCounter) -> None:
    """Write records, or save their contents, and end with the exit code of their errors."""
    write_records(records if output is None else save_contents(records, output), failures)
    failures.finish()


class CheckedAddress(NamedTuple):
    """An address that asks for the operation of its command.

    `parsed` is None for the address of an HTTP API, which has a grammar of its own (`openapi+https://...`).
    """

    text: str
    parsed: Address | None


def _parse_words(
    work: ClientSession,
    operation: Operation,
    kind: str,
    address: str,
    words: tuple[str, ...],
    reads_records: bool = False,
) -> tuple[CheckedAddress, dict[str, Any]]:
    """Add the words after an address to it: a name, unless the first word is NAME=VALUE, and arguments.

    Also return the arguments that are files.
    """
    rest = list(words)
    name = rest.pop(0) if rest and "=" not in rest[0] else ""
    if name and rest and "=" not in rest[0] and address.rstrip("/") == ALL_SERVERS:
        raise AddressError(f"{address} {name} {rest[0]}: write {name} {rest[0]} for a {kind} of {name}")
    arguments, files = split_files((NAME_VALUE.convert(word, None, None) for word in rest), reads_records)
    complete = add_operation(
        complete_reference(address, work.context.list_servers), kind if name else "", name, arguments
    )
    return _check_operation(work, operation, complete, address), files


def _check_operation(work: ClientSession, operation: Operation, address: str, typed: str) -> CheckedAddress:
    """Parse an address, which must name this operation; `typed` is what the user typed of it.

    Raises AddressError, which names a server as the user did, and ProfileError.
    """
    if get_scheme(address).startswith(API_SCHEME):
        if operation != "call" or not has_operation(address):
            wanted = "an operation (OPERATION or operation=)" if operation == "call" else "call, for an HTTP API"
            raise AddressError(f"{mask_url(address.partition('?')[0])}: expected {wanted}")
        return CheckedAddress(address, None)
    expected = {"call": "a tool (TOOL, /TOOL or tool=)", "read": "a resource (URI or resource=)"}
    found = parse_address(address)
    if found.operation != operation:
        if isinstance(found.target, NamedServer) and found.target.kind == "profile":
            work.context.get_profiles().load(found.target.name)
        wanted = expected.get(operation, "a prompt (PROMPT or prompt=)")
        name = typed.partition("?")[0]
        shown = name if found.target.label == f"/mcp/{name}" else found.target.label
        raise AddressError(f"{shown}: expected {wanted}; `patchbay inspect {shown}` lists them")
    return CheckedAddress(address, found)


def _read(work: ClientSession, address: CheckedAddress, arguments: Json | None = None) -> Iterator[Record]:
    """Read the records at an address. The source for MCP servers gets the address as it was parsed."""
    source = work.sources.find(address.text, work.context)
    if isinstance(source, McpSource) and address.parsed is not None:
        return source.reads(address.parsed, work.context, arguments)
    return source.reads(address.text, work.context, arguments)


def _write(
    work: ClientSession, address: CheckedAddress, records: Iterable[Json], arguments: Json | None
) -> Iterator[Record]:
    """Write records to an address. The source for MCP servers gets the address as it was parsed."""
    source = work.sources.find(address.text, work.context)
    if isinstance(source, McpSource) and address.parsed is not None:
        return source.writes(address.parsed, records, work.context, arguments)
    return source.writes(address.text, records, work.context, arguments)
