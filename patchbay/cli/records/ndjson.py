"""Records of pipelines: NDJSON on standard input, and files by their extension.

`.json` is an array or one value, `.ndjson` and `.jsonl` hold one record per line, `.csv` is a table. A line that is not
a record gives an error record, and reading continues. Files are replaced atomically.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from patchbay.cli.records.json_values import MAX_VALUE_BYTES, read_values
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse, parse_file

Record = dict[str, Any]

LINE_ENDINGS = (".ndjson", ".jsonl")
TABLE_ENDING = ".csv"
FORMATS = (".json", *LINE_ENDINGS, TABLE_ENDING)
STDIO = "-"
EXTRA_CELLS = "_more"
"""The field for cells of a table row that have no column name."""

_CONTROL = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def format_line(record: Any) -> str:
    """Format a record as one line of JSON, with control characters as escapes."""
    return escape_control(json.dumps(record, ensure_ascii=False))


def escape_control(text: str) -> str:
    """Replace characters that control a terminal or the text direction in JSON by escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_standard_input(bad: Callable[[Record], None], objects: bool = True) -> Iterator[Any]:
    """Read the records on standard input; without `objects`, any JSON values, such as the output of `filter`."""
    return read_values(open_standard_input(), bad, objects)


def open_standard_input() -> IO[bytes]:
    """Return standard input. Raises ConfigError when it is closed."""
    if sys.stdin is None:
        raise ConfigError("standard input", "", "expected records, but it is closed; pipe records in, or name a file")
    return sys.stdin.buffer


def is_path(place: str) -> bool:
    """Whether the text does not have the form of an address."""
    return not re.match(r"@|/mcp(?:[/?]|$)|[A-Za-z][A-Za-z0-9.+-]*:", place)


def is_record_file(place: str) -> bool:
    """Whether the text names a file of records and not an address."""
    return is_path(place) and Path(place).suffix.lower() in FORMATS


def read_file(path: Path, bad: Callable[[Record], None]) -> Iterator[Any]:
    """Read the records of a file.

    Raises ConfigError when the file cannot be read, or does not have the format of its extension.
    """
    try:
        if path.suffix.lower() in LINE_ENDINGS:
            with path.open("rb") as file:
                yield from read_values(file, bad)
        elif path.suffix.lower() == TABLE_ENDING:
            csv.field_size_limit(max(csv.field_size_limit(), MAX_VALUE_BYTES))
            with path.open(encoding="utf-8-sig", newline="") as table:
                yield from csv.DictReader(table, restkey=EXTRA_CELLS)
        else:
            yield from _read_json_file(path)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise ConfigError(str(path), "", f"expected a file of records ({problem})") from problem


def _read_json_file(path: Path) -> Iterator[Any]:
    try:
        value = parse_file(path.read_bytes())
    except ParseError as problem:
        raise ConfigError(str(path), "", f"expected JSON; {problem.message}") from problem
    yield from value if isinstance(value, list) else [value]


def write_file(path: Path, records: Iterable[Any]) -> int:
    """Write records to a file; return their number. After an error the old file is unchanged.

    A table (`.csv`) needs objects; the other formats take any JSON values. Raises ConfigError.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(str(path), "", f"expected a file name that ends with one of {', '.join(FORMATS)}")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as problem:
        raise _write_error(path, problem) from problem
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            count = _write_records(path.suffix.lower(), file, records)
        try:
            Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            Path(temporary).replace(path)
        except OSError as problem:
            raise _write_error(path, problem) from problem
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return count


def _write_error(path: Path, problem: OSError) -> ConfigError:
    return ConfigError(str(path), "", f"expected a file that can be written ({problem.strerror})")


def _write_records(ending: str, file: IO[str], records: Iterable[Any]) -> int:
    count = 0
    if ending == TABLE_ENDING:
        rows = list(records)
        columns = list(dict.fromkeys(key for row in rows for key in row))
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(
            {key: value if isinstance(value, str) else format_line(value) for key, value in row.items()} for row in rows
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


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ConfigError, which names `where`."""
    try:
        value = parse(text.encode("utf-8", "surrogateescape"))
    except ParseError as problem:
        raise ConfigError(
            where, "", f'expected a JSON object such as {{"name": "value"}}; {problem.message}'
        ) from problem
    if not isinstance(value, dict):
        raise ConfigError(where, "", "expected a JSON object")
    return value
