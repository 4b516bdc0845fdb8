"""Convert bytes to records and records to bytes: NDJSON, JSON, CSV, TSV, plain text, and base64 for everything else.

Formats with lines are read line by line; one record, or a whole JSON document, may have `limit` bytes. A line that is
not a JSON object gives an error record, and the next line is read.

Sources: RFC 4180 (CSV), RFC 8259 (JSON), the NDJSON specification.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import orjson

from patchbay.errors import InvalidParams, ParseError, TooLarge
from patchbay.jsonrpc import parse

Record = dict[str, Any]

FORMAT_BY_SUFFIX: Mapping[str, str] = {
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "json",
    "geojson": "json",
    "csv": "csv",
    "tsv": "tsv",
    "txt": "text",
    "md": "text",
    "log": "text",
}
FORMAT_BY_MEDIA_TYPE: Mapping[str, str] = {
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/x-jsonlines": "ndjson",
    "application/json-seq": "ndjson",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
}
FORMATS = ("ndjson", "json", "csv", "tsv", "text", "blob")
COMPRESSION_SUFFIXES = ("gz", "bz2", "xz", "zst")
_MAX_QUOTED_BYTES = 100


def get_format_of_name(name: str) -> str:
    """Get the format of a file name's suffix, ignoring a suffix of compression; "blob" for an unknown one."""
    words = name.rpartition("/")[2].lower().split(".")[1:]
    if words and words[-1] in COMPRESSION_SUFFIXES:
        words = words[:-1]
    return FORMAT_BY_SUFFIX.get(words[-1], "blob") if words else "blob"


def get_format_of_media_type(media_type: str) -> str:
    """Get the format of a media type: JSON and `+json` types, NDJSON, CSV, text, else "blob"."""
    bare = media_type.partition(";")[0].strip().lower()
    if bare in FORMAT_BY_MEDIA_TYPE:
        return FORMAT_BY_MEDIA_TYPE[bare]
    if bare == "application/json" or bare.endswith("+json"):
        return "json"
    return "text" if bare.startswith("text/") or bare.endswith(("/xml", "+xml", "/yaml", "+yaml")) else "blob"


def decode_records(file: IO[bytes], kind: str, limit: int, media_type: str = "") -> Iterator[Record]:
    """Decode the records of a file. Raises ParseError, TooLarge; InvalidParams for an unknown format."""
    if kind == "ndjson":
        yield from _decode_ndjson(file, limit)
    elif kind in ("csv", "tsv"):
        yield from _decode_table(file, "," if kind == "csv" else "\t", limit)
    elif kind == "json":
        yield from iterate_value(parse(_read_whole(file, limit)))
    elif kind == "text":
        yield {"text": _read_whole(file, limit).decode("utf-8", "replace"), "mimeType": media_type or "text/plain"}
    elif kind == "blob":
        blob = base64.b64encode(_read_whole(file, limit)).decode()
        yield {"blob": blob, "mimeType": media_type or "application/octet-stream"}
    else:
        raise InvalidParams(f"format={kind[:80]}: expected one of {', '.join(FORMATS)}")


def iterate_value(value: Any) -> Iterator[Record]:
    """Give a JSON value as records: the items of a list, an object unchanged, any other value under `value`."""
    for item in value if isinstance(value, list) else [value]:
        yield item if isinstance(item, dict) else {"value": item}


def _read_whole(file: IO[bytes], limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLarge(f"more than {limit} bytes; expected less, or a format that is read line by line")
    return data


def _decode_ndjson(file: IO[bytes], limit: int) -> Iterator[Record]:
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise TooLarge(f"line {number} has more than {limit} bytes")
        text = line.strip(b"\x1e \t\r\n")
        if not text:
            continue
        try:
            yield from iterate_value([parse(text)])
        except ParseError as problem:
            shown = text[:_MAX_QUOTED_BYTES].decode("utf-8", "replace")
            yield {
                "_error": True,
                "type": "json_decode_error",
                "message": f"line {number}: {problem.message}",
                "line": shown,
            }


def _decode_table(file: IO[bytes], comma: str, limit: int) -> Iterator[Record]:
    csv.field_size_limit(max(csv.field_size_limit(), limit))
    reader = csv.DictReader(_read_text_lines(file, limit), delimiter=comma, restkey="_more", strict=True)
    try:
        yield from (dict(row) for row in reader)
    except csv.Error as problem:
        raise ParseError(f"line {reader.line_num}: expected CSV as in RFC 4180; {problem}") from problem


def _read_text_lines(file: IO[bytes], limit: int) -> Iterator[str]:
    first = True
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise TooLarge(f"a line has more than {limit} bytes")
        yield line.decode("utf-8-sig" if first else "utf-8", "replace")
        first = False


def encode_records(records: Iterable[Mapping[str, Any]], kind: str, spool: IO[bytes], to: IO[bytes]) -> int:
    """Write records in a format, and return their number. `spool` is an empty scratch file for formats with a header.

    CSV has a column for every key of every record, in order of first appearance; lists and objects in a cell are JSON.
    Raises InvalidParams for a format that cannot be written.
    """
    if kind == "ndjson":
        return sum(1 for record in records if to.write(_encode_line(record)))
    if kind == "json":
        return _encode_list(records, to)
    if kind in ("csv", "tsv"):
        return _encode_table(records, "," if kind == "csv" else "\t", spool, to)
    raise InvalidParams(f"format={kind[:80]}: expected ndjson, json, csv or tsv to write records")


def _encode_line(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps(record) + b"\n"


def _encode_list(records: Iterable[Mapping[str, Any]], to: IO[bytes]) -> int:
    count = 0
    for record in records:
        to.write((b",\n" if count else b"[\n") + orjson.dumps(record))
        count += 1
    to.write(b"\n]\n" if count else b"[]\n")
    return count


def _encode_table(records: Iterable[Mapping[str, Any]], comma: str, spool: IO[bytes], to: IO[bytes]) -> int:
    columns: dict[str, None] = {}
    count = 0
    for record in records:
        columns |= dict.fromkeys(record)
        spool.write(_encode_line(record))
        count += 1
    spool.seek(0)
    text = io.TextIOWrapper(to, "utf-8", newline="", write_through=True)
    writer = csv.DictWriter(text, list(columns), delimiter=comma)
    writer.writeheader()
    for line in spool:
        row = orjson.loads(line)
        writer.writerow({key: _encode_cell(value) for key, value in row.items()})
    text.detach()
    return count


def _encode_cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, dict | list | bool) else value
