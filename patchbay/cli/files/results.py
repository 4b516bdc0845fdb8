"""Saves the contents of results as files, for `--output PATH`.

A PATH that is a folder, or ends with `/`, gets a file for each content, named after the tool with a number. Any other
PATH is the file of the first content; further contents get a number before the ending. A file is replaced as a whole.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.source import Record
from patchbay.errors import ConfigError

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MCP_TYPES = ("tool_result", "resource_content", "prompt_message")
_BARE_CONTENTS = ({"text", "mimeType"}, {"blob", "mimeType"})
"""The keys of records that hold an answer of an HTTP API which is not JSON."""

_TEXT_ENDINGS = {"text/plain": ".txt", "application/json": ".json", "text/markdown": ".md"}


def save_contents(records: Iterable[Any], output: str) -> Iterator[Record]:
    """Save the content of each record below the path `output`; yield records with `saved` and `bytes` in its place.

    Records of an HTTP API that are JSON are saved together, several as a list. Errors, and records without a content
    such as links, pass unchanged and leave no file. Raises ConfigError.
    """
    number = 0
    values: list[Any] = []
    for record in records:
        data = _get_content(record)
        if data is not None:
            number += 1
            rest = {key: value for key, value in record.items() if key not in ("text", "blob", "structuredContent")}
            yield rest | _save(data, output, record, number)
        elif _is_passed(record):
            yield record
        else:
            values.append(record)
    if values:
        data = orjson.dumps(values[0] if len(values) == 1 else values, option=orjson.OPT_INDENT_2) + b"\n"
        yield {"records": len(values)} | _save(data, output, {}, number + 1)


def _is_passed(record: Any) -> bool:
    """Whether a record is an error, or belongs to MCP and has no content."""
    return isinstance(record, Mapping) and (
        bool(record.get("_error") or record.get("isError")) or record.get("type") in _MCP_TYPES
    )


def _get_content(record: Any) -> bytes | None:
    """Return the bytes to save: of a blob, a text, or a structured result without content; None for other records."""
    if not isinstance(record, Mapping) or record.get("_error") or record.get("isError"):
        return None
    if record.get("type") not in _MCP_TYPES and record.keys() not in _BARE_CONTENTS:
        return None
    if isinstance(record.get("blob"), str):
        try:
            return base64.b64decode(record["blob"], validate=True)
        except (binascii.Error, ValueError) as problem:
            raise ConfigError("--output", "", f"the server sent a content that is not base64 ({problem})") from problem
    if isinstance(record.get("text"), str):
        return str(record["text"]).encode("utf-8", "surrogatepass")
    if "structuredContent" in record:
        return orjson.dumps(record["structuredContent"], option=orjson.OPT_INDENT_2) + b"\n"
    return None


def _save(data: bytes, output: str, record: Mapping[str, Any], number: int) -> Record:
    path = _choose_path(output, record, number)
    _write(path, data)
    return {"saved": str(path), "bytes": len(data)}


def _choose_path(output: str, record: Mapping[str, Any], number: int) -> Path:
    path = Path(output).expanduser()
    if output.endswith(os.sep) or path.is_dir():
        default = "application/json" if "text" not in record and "blob" not in record else "text/plain"
        media_type = str(record.get("mimeType", default)).partition(";")[0].strip().lower()
        name = str(record.get("tool") or record.get("uri") or "result").rstrip("/").rpartition("/")[2]
        stem = _UNSAFE.sub("-", name).strip(".-")[:100] or "result"
        ending = _TEXT_ENDINGS.get(media_type) or mimetypes.guess_extension(media_type) or ".bin"
        return path / f"{stem}-{number}{ending}"
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as problem:
        with suppress(OSError):
            temporary.unlink()
        raise ConfigError(str(path), "", f"expected a file that can be written ({problem.strerror})") from problem
