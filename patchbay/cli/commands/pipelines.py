"""The commands of pipelines: `cat`, `head`, `tail`, `put`. Records in, records out.

They take any address, a file of records, or standard input; what an address means is up to its source.
Sources: JN-12, JN-18, JN-19, JN-36 to JN-38, JN-C17, J-F7 to J-F12.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from patchbay.cli.client_session import ClientSession, with_reach
from patchbay.cli.completion import addresses
from patchbay.cli.ndjson import STDIO, TABLE, Failures, emit, is_file, is_path, read_file, standard_input, write_file
from patchbay.cli.typed_addresses import full
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.source import Record, get_scheme, make_error_record
from patchbay.errors import ConfigError, PatchbayError
from patchbay.exit_codes import with_examples

COUNT = 10
"""Records that `head` and `tail` give (JN-37)."""


AS_TEXT = click.option("--text", "as_text", is_flag=True, help="Write the text of records, not JSON.")


def records_of(work: ClientSession, place: str, bad: Callable[[Record], None]) -> Iterator[Any]:
    """The records at a place: `-` or nothing, a file, or an address."""
    if place in ("", STDIO):
        return standard_input(bad, objects=False)
    if is_file(place):
        return read_file(Path(place), bad)
    address = full(place)
    return work.sources.find(address, work.context).reads(address, work.context)


def show(records: Iterable[Any], failures: Failures) -> None:
    """Write records as they come; a problem is one more record, and is raised (JN-19)."""
    try:
        for record in records:
            failures.emit(failures.seen(record))
    except PatchbayError as problem:
        emit(make_error_record(kind_of(problem), problem.message))
        raise


def kind_of(problem: PatchbayError) -> str:
    """The type of an error record (J-F7)."""
    if isinstance(problem, ProfileError):
        return "profile_error"
    return "resolution_error" if isinstance(problem, (AddressError, ConfigError)) else "mcp_error"


@click.command(
    "cat",
    epilog=with_examples(
        'jn cat "mcp+uvx://biomcp-python/biomcp?command=run&tool=search&gene=BRAF"',
        'jn cat "@biomcp/search?gene=BRAF"',
        'jn cat "@biomcp?list=tools"',
        'jn cat "@biomcp?resource=resource://trials/NCT12345"',
        "jn cat results.json",
    ),
)
@click.argument("address", shell_complete=addresses)
@AS_TEXT
@with_reach
def cat(work: ClientSession, /, address: str, as_text: bool) -> None:
    """Write the records at ADDRESS: a tool's results, a resource, a list. Without an operation: the resources.

    ADDRESS may also be a file of records (.json, .ndjson, .jsonl, .csv), or - for standard input.
    """
    failures = Failures(as_text)
    show(_some(work, address, failures), failures)
    failures.finish()


def _some(work: ClientSession, place: str, failures: Failures) -> Iterator[Any]:
    yield from records_of(work, place, failures.told)


def _count_and_place(words: tuple[str, ...], count: int | None) -> tuple[int, str]:
    """`head 5` is a count, `head ADDRESS` a place (J-F9)."""
    rest = list(words)
    if count is None and rest and rest[0].isdigit():
        count = int(rest.pop(0))
    if len(rest) > 1:
        raise click.UsageError(f"expected one address, got {' '.join(rest)}")
    return (COUNT if count is None else count), (rest[0] if rest else STDIO)


def _counted(command: Any) -> Any:
    command = with_reach(command)
    lines = click.option(
        "-n", "--lines", type=click.IntRange(min=0), metavar="COUNT", help=f"Records [default {COUNT}]."
    )
    return click.argument("words", metavar="[COUNT] [ADDRESS]", nargs=-1, shell_complete=addresses)(lines(command))


@click.command(
    "head",
    epilog=with_examples(
        'jn head "mcp+uvx://biomcp-python/biomcp?command=run&tool=search&gene=BRAF"',
        'jn head -n 3 "@biomcp?list=tools"',
        'jn cat "@biomcp?list=tools" | jn head 5',
    ),
)
@_counted
def head(work: ClientSession, /, words: tuple[str, ...], lines: int | None) -> None:
    """Write the first records at ADDRESS, or of standard input; then end what makes them."""
    count, place = _count_and_place(words, lines)
    failures = Failures()
    if count:
        show(islice(_some(work, place, failures), count), failures)
    failures.finish()


@click.command(
    "tail",
    epilog=with_examples('jn tail -n 3 "@biomcp?list=tools"', 'jn cat "@biomcp?list=tools" | jn tail 5'),
)
@_counted
def tail(work: ClientSession, /, words: tuple[str, ...], lines: int | None) -> None:
    """Write the last records at ADDRESS, or of standard input."""
    count, place = _count_and_place(words, lines)
    failures = Failures()
    kept: deque[Any] = deque(maxlen=count)
    try:
        for record in records_of(work, place, kept.append):
            kept.append(record)
    except PatchbayError as problem:
        show(kept, failures)
        emit(make_error_record(kind_of(problem), problem.message))
        raise
    show(kept, failures)
    failures.finish()


@click.command(
    "put",
    epilog=with_examples(
        'echo \'{"gene": "TP53"}\' | jn put "@biomcp/variant_search"',
        "jn cat \"@biomcp/search?gene=BRAF\" | jn filter 'select(.text)' | jn put results.json",
    ),
)
@click.argument("target", shell_complete=addresses)
@with_reach
def put(work: ClientSession, /, target: str) -> None:
    """Write the records of standard input to TARGET: a tool, called once per record, or a file.

    A tool's results are written to standard output, as records. Keys of a record that start with _ are no arguments.
    A line that is no record, or a call that fails, gives an error record, and the next one is tried.
    """
    failures = Failures()
    if target == STDIO:
        show(standard_input(failures.told, objects=False), failures)
    elif is_path(target) and "." in Path(target).name:
        path = Path(target)
        records = standard_input(failures.told, objects=path.suffix.lower() == TABLE)
        write_file(path, (failures.seen(record) for record in records))
    else:
        address = target if get_scheme(target) else full(target)
        _put_to_source(work, address, standard_input(failures.told), failures)
    failures.finish()


def _put_to_source(work: ClientSession, address: str, records: Iterator[Record], failures: Failures) -> None:
    def wanted() -> Iterator[Record]:
        for record in records:
            if record.get("_error") is True:
                emit(failures.seen(record))
            else:
                yield record

    if address.startswith(("@", "/mcp", "mcp")):
        parse_address(address)
    show(work.sources.find(address, work.context).writes(address, wanted(), work.context), failures)
