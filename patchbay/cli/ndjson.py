"""Records on their way through a pipeline: NDJSON in and out, and files by their ending.

`.json` is an array (or one value), `.ndjson` and `.jsonl` one record per line, `.csv` a table. A line that is no
record gives an error record, and the next one is read. Files are replaced whole.
Sources: JN-18, JN-38, J-F7, J-F8, J-F12.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import click

from patchbay import exit_codes
from patchbay.cli.json_values import MAX_VALUE_BYTES, read_values
from patchbay.cli.messages import printable
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse
from patchbay.views.terminal import is_terminal

Record = dict[str, Any]

LINES = (".ndjson", ".jsonl")
TABLE = ".csv"
FORMATS = (".json", *LINES, TABLE)
STDIO = "-"
REST = "_more"
"""What holds the cells of a table's row that stand under no name."""

_STEERING = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def line(record: Any) -> str:
    """A record as one line of JSON; characters that steer a terminal are written as escapes."""
    return escaped(json.dumps(record, ensure_ascii=False))


def escaped(text: str) -> str:
    """JSON with characters that steer a terminal or turn the direction of writing as escapes."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def emit(record: Any) -> None:
    """Write a record to standard output, at once."""
    click.echo(line(record))


def emit_text(record: Any) -> None:
    """Write the text of a record to standard output, at once; a record without one as JSON."""
    text = record if isinstance(record, str) else record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        emit(record)
        return
    click.echo(printable(text) if is_terminal(sys.stdout) else text, nl=not text.endswith("\n"))


class Failures:
    """Counts the records that tell of a failure; the exit code depends on it."""

    def __init__(self, as_text: bool = False) -> None:
        """`as_text` writes the text of records instead of JSON."""
        self.count = 0
        self.emit = emit_text if as_text else emit

    def seen(self, record: Any) -> Any:
        """The record itself."""
        self.count += isinstance(record, Mapping) and bool(record.get("_error") or record.get("isError"))
        return record

    def told(self, record: Record) -> None:
        """Write a record at once, beside those that come of the work."""
        emit(self.seen(record))

    def finish(self) -> None:
        """End with the exit code of what was seen."""
        if self.count:
            sys.exit(exit_codes.FAILED)


def standard_input(bad: Callable[[Record], None], objects: bool = True) -> Iterator[Any]:
    """The records on standard input; without `objects`, all JSON values: what `filter` gives need be no object."""
    return read_values(opened_input(), bad, objects)


def opened_input() -> IO[bytes]:
    """Standard input. Raises ConfigError when it is closed."""
    if sys.stdin is None:
        raise ConfigError("standard input", "", "expected records, and it is closed; pipe some in, or name a file")
    return sys.stdin.buffer


def is_path(place: str) -> bool:
    """Whether this has the form of no address."""
    return not re.match(r"@|/mcp(?:[/?]|$)|[A-Za-z][A-Za-z0-9.+-]*:", place)


def is_file(place: str) -> bool:
    """Whether this names a file of records rather than an address."""
    return is_path(place) and Path(place).suffix.lower() in FORMATS


def read_file(path: Path, bad: Callable[[Record], None]) -> Iterator[Any]:
    """The records of a file, or the values of a JSON one.

    Raises ConfigError when it cannot be read or is not what its ending says.
    """
    try:
        if path.suffix.lower() in LINES:
            with path.open("rb") as file:
                yield from read_values(file, bad)
        elif path.suffix.lower() == TABLE:
            csv.field_size_limit(max(csv.field_size_limit(), MAX_VALUE_BYTES))
            with path.open(encoding="utf-8-sig", newline="") as table:
                yield from csv.DictReader(table, restkey=REST)
        else:
            yield from _whole(path)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise ConfigError(str(path), "", f"expected a file of records ({problem})") from problem


def _whole(path: Path) -> Iterator[Any]:
    try:
        value = parse(path.read_bytes())
    except ParseError as problem:
        raise ConfigError(str(path), "", f"expected JSON; {problem.message}") from problem
    yield from value if isinstance(value, list) else [value]


def write_file(path: Path, records: Iterable[Any]) -> int:
    """Make these the records of a file; answers how many. Nothing is changed when something goes wrong meanwhile.

    A table (`TABLE`) has objects; the other formats have any JSON values.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(str(path), "", f"expected a file name that ends with one of {', '.join(FORMATS)}")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as problem:
        raise _unwritable(path, problem) from problem
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            count = _write(path.suffix.lower(), file, records)
        try:
            Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            Path(temporary).replace(path)
        except OSError as problem:
            raise _unwritable(path, problem) from problem
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return count


def _unwritable(path: Path, problem: OSError) -> ConfigError:
    return ConfigError(str(path), "", f"expected a file that can be written ({problem.strerror})")


def _write(ending: str, file: IO[str], records: Iterable[Any]) -> int:
    count = 0
    if ending == TABLE:
        rows = list(records)
        columns = list(dict.fromkeys(key for row in rows for key in row))
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(
            {key: value if isinstance(value, str) else line(value) for key, value in row.items()} for row in rows
        )
        return len(rows)
    if ending == ".json":
        file.write("[")
    for record in records:
        start = ("," if count else "") + "\n  " if ending == ".json" else ""
        file.write(f"{start}{json.dumps(record, ensure_ascii=False)}" + ("" if ending == ".json" else "\n"))
        count += 1
    if ending == ".json":
        file.write("\n]\n" if count else "]\n")
    return count


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def object_from(text: str, where: str) -> dict[str, Any]:
    """A JSON object that was given as text. Raises ConfigError."""
    try:
        value = parse(text.encode("utf-8", "surrogateescape"))
    except ParseError as problem:
        raise ConfigError(where, "", f"expected a JSON object; {problem.message}") from problem
    if not isinstance(value, dict):
        raise ConfigError(where, "", "expected a JSON object")
    return value
