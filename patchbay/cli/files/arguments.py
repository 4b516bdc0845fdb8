"""Reads the files that words such as `text=@notes.md` and `text=@-` name.

`NAME=@@TEXT` is the text `@TEXT`. A file has at most MAX_VALUE_BYTES bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from patchbay.cli.records.json_values import MAX_VALUE_BYTES
from patchbay.cli.records.ndjson import STDIO, open_standard_input
from patchbay.client.contracts.file_arguments import FileArgument

MARK = "@"

Pair = tuple[str, str]


def split_files(pairs: Iterable[Pair], reads_records: bool = False) -> tuple[list[Pair], dict[str, Any]]:
    """Split NAME=VALUE pairs into those with a typed value, and the files of the others by name.

    A repeated name makes a list of files. `reads_records` says that the command reads records from standard input.
    Raises UsageError for a file that cannot be read, for a second `@-`, and for a name with a text and a file.
    """
    typed: list[Pair] = []
    files: dict[str, Any] = {}
    for name, value in pairs:
        if not value.startswith(MARK) or value == MARK:
            typed.append((name, value))
        elif value.startswith(MARK + MARK):
            typed.append((name, value[1:]))
        else:
            _add(files, name, _read(name, value[1:], reads_records or _has_standard_input(files)))
    if both := files.keys() & {name for name, _ in typed}:
        raise click.UsageError(f"{min(both)}: expected either texts or files, got both")
    return typed, files


def _add(files: dict[str, Any], name: str, file: FileArgument) -> None:
    before = files.get(name)
    files[name] = file if before is None else [*(before if isinstance(before, list) else [before]), file]


def _has_standard_input(files: dict[str, Any]) -> bool:
    found = (one for value in files.values() for one in (value if isinstance(value, list) else [value]))
    return any(one.name == STDIO for one in found)


def _read(name: str, place: str, is_taken: bool) -> FileArgument:
    if place == STDIO and is_taken:
        raise click.UsageError(f"{name}=@-: standard input is read already; name a file")
    try:
        with open_standard_input() if place == STDIO else Path(place).expanduser().open("rb") as file:
            data = file.read(MAX_VALUE_BYTES + 1)
    except OSError as problem:
        raise click.UsageError(
            f"{name}=@{place}: the file cannot be read ({problem.strerror}); "
            f"the text {MARK}{place} is written {name}={MARK}{MARK}{place}"
        ) from problem
    if len(data) > MAX_VALUE_BYTES:
        raise click.UsageError(f"{name}=@{place}: expected at most {MAX_VALUE_BYTES} bytes")
    return FileArgument(place, data)
