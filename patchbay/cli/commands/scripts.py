"""The command `run`: a script over the tools of a server, of a toolset, or of a hub elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from patchbay.cli.client_session import NAME_VALUE, ClientSession, with_session
from patchbay.cli.commands.pipelines import with_style, write_records
from patchbay.cli.completion.values import complete_address, complete_server
from patchbay.cli.records.ndjson import STDIO
from patchbay.cli.records.output import FailureCounter, Style
from patchbay.cli.terminal.messages import write_note
from patchbay.cli.typed_addresses import add_operation, complete_reference, with_headers
from patchbay.client.addresses.address import parse_address
from patchbay.client.source import Record
from patchbay.client.sources.mcp import McpSource
from patchbay.errors import ConfigError, PatchbayError
from patchbay.exit_codes import RELEASE, with_examples

ALL_SERVERS = "/mcp"
"""The address of all servers of the hub."""

_WAITING_RUN = re.compile(r"\(run ([0-9a-f]{16})\)")
"""The id of a run in the sentence about one that waits (`scripting/following.py`)."""

RUN_SCRIPT = "run_script"
"""The tool by which a hub runs scripts."""


@click.command(
    "run",
    epilog=with_examples(
        "patchbay run script.py --toolset release",
        "patchbay run script.py --toolset release --input days=30 --text",
        "patchbay run script.py --at https://hub.example/mcp/release",
        "echo '1 + 1' | patchbay run - --toolset release",
        after=f"{RELEASE}, and with `script.py`",
    ),
)
@click.argument("script", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--toolset",
    "--server",
    "name",
    metavar="NAME",
    shell_complete=complete_server,
    help="Call the tools of this toolset, or of any other server [default those of all servers, /mcp].",
)
@click.option(
    "--at",
    "address",
    metavar="ADDRESS",
    shell_complete=complete_address,
    help="Run it at this address: a hub elsewhere, or a profile such as @release.",
)
@click.option(
    "--input",
    "inputs",
    type=NAME_VALUE,
    multiple=True,
    help="A value that the script uses by this name: JSON, or a text. Repeatable.",
)
@click.option(
    "--rehearse", is_flag=True, help="Call only tools that read, list the other calls, and ask for their approvals."
)
@with_style
@with_session
@with_headers
def run(
    work: ClientSession,
    /,
    script: str,
    name: str | None,
    address: str | None,
    inputs: tuple[tuple[str, str], ...],
    rehearse: bool,
    style: Style,
) -> None:
    """Run the Python file SCRIPT, which calls tools.

    It prints the value of the last expression, as `patchbay call` prints a result (docs/scripts.md). The script runs in
    the hub, with your rights there: the types are checked before anything runs. The server has scripts with
    `"listing": {"scripts": "also"}`. SCRIPT - is standard input.

    Without a terminal, and without --answer or --decline, a script whose calls need an approval waits for the page
    /approvals, and one whose tools ask a question for the page of its run: `patchbay runs show` has its value later.
    """
    if name and address:
        raise ConfigError("--at", "", "expected --toolset or --at, not both")
    place = complete_reference(address or (f"{ALL_SERVERS}/{name}" if name else ALL_SERVERS), work.context.list_servers)
    arguments: dict[str, Any] = {"code": _read_script(script)}
    arguments["inputs"] = {key: _value_of(text) for key, text in inputs}
    if rehearse:
        arguments["rehearse"] = True
    # Without anybody to ask, a script waits for the page, where "no answer" would refuse its calls.
    work.answers.are_left_to_page = not work.answers.has_answers
    failures = FailureCounter(style)
    write_records(_explaining(_run(work, place, arguments), place), failures)
    failures.finish()


def _run(work: ClientSession, place: str, arguments: dict[str, Any]) -> Iterator[Record]:
    """Yield the records of a call of `run_script` at an address."""
    text = add_operation(place, "tool", RUN_SCRIPT)
    source = work.sources.find(text, work.context)
    if isinstance(source, McpSource):
        return source.reads(parse_address(text), work.context, arguments)
    raise ConfigError(place, "", "expected the address of an MCP server that runs scripts")


def _explaining(records: Iterable[Record], place: str) -> Iterator[Record]:
    """Yield the records; say what to change where the server has no scripts, and what follows for one that waits."""
    try:
        for record in records:
            text = str(record.get("text", "")) if record.get("isError") else ""
            if _is_without_scripts(text):
                _advise(place)
            yield record
            if (waits := _WAITING_RUN.search(text)) is not None:
                write_note(
                    f"Next: `patchbay runs show {waits[1]} --wait` has its value once the run has ended, and `patchbay"
                    f" runs cancel {waits[1]}` ends it, with the --at and the --header of this command"
                )
    except PatchbayError as problem:
        if _is_without_scripts(problem.message):
            _advise(place)
        raise


def _is_without_scripts(message: str) -> bool:
    return f"no tool '{RUN_SCRIPT}'" in message


def _advise(place: str) -> None:
    how = 'write "listing": {"scripts": "also"} into the configuration of the server'
    if place == ALL_SERVERS:
        how = 'write {"scripts": "also"} into the variable listing'
    write_note(f"{place} runs no scripts: {how}.")


def _read_script(script: str) -> str:
    """Return the text of a script. Raises ConfigError."""
    try:
        return sys.stdin.read() if script == STDIO else Path(script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(script, "", f"expected a Python file that can be read: {problem}") from problem


def _value_of(text: str) -> Any:
    """Return the JSON value that a text is, else the text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
