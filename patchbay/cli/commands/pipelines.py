"""The commands of pipelines: `cat`, `head`, `tail` and `put`. They read and write records.

They take any address, a file of records, or standard input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from patchbay.cli.client_session import ClientSession, with_session
from patchbay.cli.completion.values import complete_address
from patchbay.cli.records.ndjson import (
    STDIO,
    TABLE_ENDING,
    is_path,
    is_record_file,
    read_file,
    read_standard_input,
    write_file,
)
from patchbay.cli.records.output import FailureCounter, Style, emit_failure
from patchbay.cli.typed_addresses import complete_reference
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.source import Record, get_scheme, make_error_record
from patchbay.errors import ConfigError, PatchbayError
from patchbay.exit_codes import GREETER, with_examples

DEFAULT_RECORDS = 10
"""Records that `head` and `tail` write without a count."""


def with_style(command: Any) -> Any:
    """Add the options `--text` and `--json` to a command; its parameter `style` is the one that came last, or None."""
    text = click.option("--text", "style", flag_value="text", help="Write the text of records instead of JSON.")
    lines = "Write each record as a line of JSON on a terminal too, as in a pipe."
    return text(click.option("--json", "style", flag_value="json", help=lines)(command))


def read_records(work: ClientSession, place: str, bad: Callable[[Record], None]) -> Iterator[Any]:
    """Read the records of standard input (`-` or empty), a file, or an address."""
    if place in ("", STDIO):
        return read_standard_input(bad, objects=False)
    if is_record_file(place):
        return read_file(Path(place), bad)
    address = complete_reference(place, work.context.list_servers)
    return work.sources.find(address, work.context).reads(address, work.context)


def write_records(records: Iterable[Any], failures: FailureCounter) -> None:
    """Write records as they come. An error is written as a record, and then raised."""
    try:
        for record in records:
            failures.emit(record)
    except PatchbayError as problem:
        emit_failure(make_error_record(error_type(problem), problem.message), failures.style)
        raise


def error_type(problem: PatchbayError) -> str:
    """The type of an error record."""
    if isinstance(problem, ProfileError):
        return "profile_error"
    return "resolution_error" if isinstance(problem, (AddressError, ConfigError)) else "mcp_error"


@click.command(
    "cat",
    epilog=with_examples(
        'patchbay cat "mcp+uvx://mcp-server-time/mcp-server-time?tool=get_current_time&timezone=UTC"',
        'patchbay cat "/mcp/greeter/greet?name=Ann"',
        'patchbay cat "/mcp/greeter?list=tools"',
        'patchbay cat "/mcp/jq?resource=jq://cheat-sheet"',
        'patchbay cat "/mcp/greeter/greet?name=Ann" > results.ndjson',
        "patchbay cat results.ndjson",
        after=GREETER,
    ),
)
@click.argument("address", shell_complete=complete_address)
@with_style
@with_session
def cat(work: ClientSession, /, address: str, style: Style) -> None:
    """Write the records at ADDRESS: results, a resource, a list. Without an operation: the resources.

    ADDRESS may also be a file of records (.json, .ndjson, .jsonl, .csv), or - for standard input.
    """
    failures = FailureCounter(style)
    write_records(_iterate_records(work, address, failures), failures)
    failures.finish()


def _iterate_records(work: ClientSession, place: str, failures: FailureCounter) -> Iterator[Any]:
    yield from read_records(work, place, failures.report)


def _parse_count_and_place(words: tuple[str, ...], count: int | None) -> tuple[int, str]:
    """Parse the words of `head 5` (a count) or `head ADDRESS` (a place)."""
    rest = list(words)
    if count is None and rest and rest[0].isdigit():
        count = int(rest.pop(0))
    if len(rest) > 1:
        raise click.UsageError(f"expected one address, got {' '.join(rest)}")
    return (DEFAULT_RECORDS if count is None else count), (rest[0] if rest else STDIO)


def _with_count(command: Any) -> Any:
    command = with_session(command)
    lines = click.option(
        "-n", "--lines", type=click.IntRange(min=0), metavar="COUNT", help=f"Records [default {DEFAULT_RECORDS}]."
    )
    return click.argument("words", metavar="[COUNT] [ADDRESS]", nargs=-1, shell_complete=complete_address)(
        lines(command)
    )


@click.command(
    "head",
    epilog=with_examples(
        'patchbay head "mcp+uvx://mcp-server-time/mcp-server-time?tool=get_current_time&timezone=UTC"',
        'patchbay head -n 3 "/mcp/greeter?list=tools"',
        'patchbay cat "/mcp/greeter?list=tools" | patchbay head 5',
        after=GREETER,
    ),
)
@_with_count
def head(work: ClientSession, /, words: tuple[str, ...], lines: int | None) -> None:
    """Write the first records at ADDRESS, or of a pipe."""
    count, place = _parse_count_and_place(words, lines)
    failures = FailureCounter()
    if count:
        write_records(islice(_iterate_records(work, place, failures), count), failures)
    failures.finish()


@click.command(
    "tail",
    epilog=with_examples(
        'patchbay tail -n 3 "/mcp/greeter?list=tools"',
        'patchbay cat "/mcp/greeter?list=tools" | patchbay tail 5',
        after=GREETER,
    ),
)
@_with_count
def tail(work: ClientSession, /, words: tuple[str, ...], lines: int | None) -> None:
    """Write the last records at ADDRESS, or of a pipe."""
    count, place = _parse_count_and_place(words, lines)
    failures = FailureCounter()
    kept: deque[Any] = deque(maxlen=count)
    try:
        for record in read_records(work, place, kept.append):
            kept.append(record)
    except PatchbayError as problem:
        write_records(kept, failures)
        emit_failure(make_error_record(error_type(problem), problem.message))
        raise
    write_records(kept, failures)
    failures.finish()


@click.command(
    "put",
    epilog=with_examples(
        'echo \'{"name": "Ann"}\' | patchbay put "/mcp/greeter/greet"',
        "patchbay cat \"/mcp/greeter/greet?name=Ann\" | patchbay filter 'select(.text)' | patchbay put results.json",
        after=GREETER,
    ),
)
@click.argument("target", shell_complete=complete_address)
@with_session
def put(work: ClientSession, /, target: str) -> None:
    """Send the records of a pipe to a tool or a file. The tool at TARGET is called once for each record.

    The results of a tool are written to standard output as records. Fields whose names start with _ are not arguments.
    A line that is not a record, or a failed call, gives an error record, and the next record follows.
    """
    failures = FailureCounter()
    if target == STDIO:
        write_records(read_standard_input(failures.report, objects=False), failures)
    elif is_path(target) and "." in Path(target).name:
        path = Path(target)
        records = read_standard_input(failures.report, objects=path.suffix.lower() == TABLE_ENDING)
        write_file(path, (failures.count_record(record) for record in records))
    else:
        address = target if get_scheme(target) else complete_reference(target, work.context.list_servers)
        _put_to_source(work, address, read_standard_input(failures.report), failures)
    failures.finish()


def _put_to_source(work: ClientSession, address: str, records: Iterator[Record], failures: FailureCounter) -> None:
    def valid_records() -> Iterator[Record]:
        for record in records:
            if record.get("_error") is True:
                failures.emit(record)
            else:
                yield record

    if address.startswith(("@", "/mcp", "mcp")):
        parse_address(address)
    write_records(work.sources.find(address, work.context).writes(address, valid_records(), work.context), failures)
