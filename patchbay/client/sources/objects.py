"""The source for object stores, through fsspec: S3, and every other store that fsspec has a client for.

A bucket or a folder is listed; a key or a pattern is read as records, object after object, line by line where the
format has lines. `put` writes one object as a whole. There is no schema, so there is no hash: a profile is valid as
long as each of its patterns has objects.
"""

from __future__ import annotations

import io
import lzma
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, cast
from uuid import uuid4

import fsspec
from fsspec import AbstractFileSystem

from patchbay.client.contracts.contract import ValidationResult
from patchbay.client.contracts.drift import ContractChange
from patchbay.client.errors import Unreachable
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import Record, SourceContext, make_error_record
from patchbay.client.sources.formats import decode_records, encode_records, get_format_of_name
from patchbay.client.sources.object_patterns import infer_key_patterns
from patchbay.client.sources.objects_targets import (
    S3_SCHEMES,
    ObjectPath,
    get_structure,
    make_glob,
    make_object_path,
    parse_object_path,
)
from patchbay.client.sources.records import get_arguments
from patchbay.errors import InvalidParams, PatchbayError, ResourceNotFound

MAX_EXPLORED_KEYS = 1000
"""Keys that `explores` reads."""

SAMPLE_COUNT = 5
"""Objects whose metadata `explores` gives, and records whose fields it gives."""

MAX_OBJECTS_PER_PATTERN = 1_000_000
"""Objects that one pattern may match."""


class ObjectSource:
    """One family of stores. `name` is the plugin of its profiles, `schemes` are the schemes of its addresses."""

    def __init__(self, name: str, schemes: Collection[str]) -> None:
        self.name = name
        self.schemes = schemes

    def claims(self, address: str) -> bool:
        """Claim nothing beside the schemes."""
        return False

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """Read the records of the objects, or list a bucket or folder."""
        location = parse_object_path(address, context, self.name)
        with _open_store(location) as store:
            if location.is_prefix:
                yield from ({"type": "object", **row} for row in _list_objects(store, location))
                return
            keys = _list_keys(store, location)
            for key in keys:
                yield from _read_records(store, location, key, context)

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Write all records as one object, in the format of its name.

        The old object is replaced when all records are written.
        """
        location = parse_object_path(address, context, self.name)
        if location.is_pattern or location.is_prefix:
            raise InvalidParams(f"{location.label}: expected one key to write to")
        kind = location.get_format(location.path)
        compression = _get_compression(location.path)
        with _open_store(location) as store, tempfile.NamedTemporaryFile() as whole, tempfile.TemporaryFile() as spool:
            with fsspec.open(f"file://{whole.name}", "wb", compression=compression) as file:
                plain = (get_arguments({**(arguments or {}), **record}) for record in records)
                count = encode_records(plain, kind, cast(Any, spool), file)
            _put_file(store, whole.name, location.path)
            size = store.size(location.path)
        yield {"type": "object_written", "key": location.path, "format": kind, "records": count, "size": size}

    def inspects(self, address: str, context: SourceContext) -> dict[str, Any]:
        """List the objects as resources."""
        location = parse_object_path(address, context, self.name)
        with _open_store(location) as store:
            rows = list(islice(_list_objects(store, location), MAX_EXPLORED_KEYS))
        return {
            "server": location.bucket or location.scheme,
            "transport": location.scheme,
            "address": location.label,
            "tools": [],
            "resources": [
                {
                    "uri": f"{location.scheme}://{row['key']}",
                    "name": row["key"].rpartition("/")[2],
                    "description": f"{row['size']} bytes",
                    "mimeType": _MEDIA_TYPES.get(get_format_of_name(row["key"]), "application/octet-stream"),
                }
                for row in rows
            ],
        }

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """List keys, patterns, metadata of some objects, and the fields of their first records."""
        location = parse_object_path(address, context, self.name)
        with _open_store(location) as store:
            rows = list(islice(_list_objects(store, location, deep=True), MAX_EXPLORED_KEYS + 1))
            shown = rows[:MAX_EXPLORED_KEYS]
            patterns = infer_key_patterns(shown)
            samples = [_describe_sample(store, location, row["example"], context) for row in patterns[:SAMPLE_COUNT]]
        return {
            "plugin": self.name,
            "service": location.bucket or location.scheme,
            "version_hash": None,
            "discoverable": {
                "keys": [row["key"] for row in shown],
                "patterns": patterns,
                "sample_metadata": samples,
                "truncated": len(rows) > MAX_EXPLORED_KEYS,
            },
        }

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Check that the store can be read and that each pattern of the profile has objects."""
        try:
            changes = []
            for name, row in get_structure(profile).items() or [("", {"pattern": ""})]:
                location = make_object_path(profile, make_glob(str(row["pattern"])), context)
                with _open_store(location) as store:
                    found = next(iter(_list_objects(store, location)), None)
                if found is None:
                    sentence = f"Structure '{name}': no object matches {row['pattern']!r}"
                    changes.append(ContractChange(name, "/pattern", "breaking", sentence))
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)
        if changes:
            return ValidationResult(
                "changed", "The store has no objects for some patterns of the profile", tuple(changes)
            )
        return ValidationResult("valid", "Every pattern has objects")

    def versions(self, address: str, context: SourceContext) -> str | None:
        """Return None: contents of a store have no contract."""
        return None


_MEDIA_TYPES = {
    "ndjson": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "text": "text/plain",
}

STORAGE_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors of a failing store, and of a file whose content does not match its name."""

_CLIENT_LIBRARIES = ("botocore", "aiobotocore", "google", "gcsfs", "azure", "aiohttp")
"""Libraries below fsspec that raise errors of their own."""


_S3_CLIENT_OPTIONS = {"connect_timeout": 15, "retries": {"mode": "standard", "total_max_attempts": 2}}
"""Options of the S3 client: seconds, and the number of attempts."""


@contextmanager
def _open_store(location: ObjectPath) -> Iterator[AbstractFileSystem]:
    """Open the client of a store; its errors become errors of this package."""
    store = _make_store(location)
    try:
        yield store
    except PatchbayError:
        raise
    except FileNotFoundError as problem:
        raise ResourceNotFound(location.label) from problem
    except STORAGE_ERRORS as problem:
        raise Unreachable(f"{location.label}: {type(problem).__name__}: {problem}") from problem
    except Exception as problem:
        if not type(problem).__module__.startswith(_CLIENT_LIBRARIES):
            raise
        raise Unreachable(f"{location.label}: {type(problem).__name__}: {problem}") from problem


def _make_store(location: ObjectPath) -> AbstractFileSystem:
    # Clients with their credentials, and listings, are not kept between commands.
    options = {"use_listings_cache": False, "skip_instance_cache": True, **location.options}
    if location.scheme in S3_SCHEMES:
        options = {"config_kwargs": _S3_CLIENT_OPTIONS, **options}
    try:
        return fsspec.filesystem("s3" if location.scheme in S3_SCHEMES else location.scheme, **options)
    except ImportError as problem:
        raise Unreachable(f"{location.label}: {problem}; for S3: pip install 'patchbay-hub[s3]'") from problem
    except (OSError, ValueError, TypeError) as problem:
        raise Unreachable(f"{location.label}: the client cannot be made: {problem}") from problem


def _describe_object(info: Mapping[str, Any]) -> dict[str, Any]:
    modified = next((info[key] for key in ("LastModified", "last_modified", "mtime", "created") if key in info), None)
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified).astimezone()
    when = {"modified": modified.isoformat()} if isinstance(modified, datetime) else {}
    beside = {
        ours: str(info[theirs]).strip('"')
        for ours, theirs in (("etag", "ETag"), ("class", "StorageClass"))
        if info.get(theirs)
    }
    return {"key": str(info["name"]), "size": int(info.get("size") or 0), **when, **beside}


def _list_objects(store: AbstractFileSystem, location: ObjectPath, deep: bool = False) -> Iterator[dict[str, Any]]:
    """List the objects at a path, in the order of their keys: those in a folder, or with `deep` all below it."""
    if location.is_pattern:
        found = store.glob(location.path, detail=True)
    elif deep or location.is_prefix:
        found = store.find(location.path, maxdepth=None if deep else 1, withdirs=not deep, detail=True)
    else:
        found = {location.path: store.info(location.path)}
    for key in sorted(found):
        if found[key].get("type") == "file":
            yield _describe_object(found[key])
        elif not deep and not location.is_pattern and key.rstrip("/") != location.path.rstrip("/"):
            yield {"key": key.rstrip("/") + "/", "size": 0}


def _list_keys(store: AbstractFileSystem, location: ObjectPath) -> list[str]:
    if not location.is_pattern:
        return [location.path]
    found = [row["key"] for row in islice(_list_objects(store, location), MAX_OBJECTS_PER_PATTERN)]
    if not found:
        raise ResourceNotFound(location.label, "no object matches")
    return found


def _get_compression(key: str) -> str | None:
    known = {"gz": "gzip", "bz2": "bz2", "xz": "xz", "zst": "zstd"}
    return known.get(key.rpartition(".")[2].lower())


def _read_records(
    store: AbstractFileSystem, location: ObjectPath, key: str, context: SourceContext
) -> Iterator[Record]:
    """Read the records of one object.

    For a pattern each record has `_key`, and an unreadable object gives an error record.
    """
    mark = {"_key": key} if location.is_pattern else {}
    try:
        with _open_buffered(store, key) as file:
            for record in decode_records(file, location.get_format(key), context.limit):
                yield {**record, **mark}
    except (PatchbayError, *STORAGE_ERRORS) as problem:
        if not location.is_pattern:
            raise
        message = problem.message if isinstance(problem, PatchbayError) else f"{type(problem).__name__}: {problem}"
        yield make_error_record("object_error", message, **mark)


@contextmanager
def _open_buffered(store: AbstractFileSystem, key: str) -> Iterator[io.BufferedReader]:
    """Open an object's decompressed bytes with a buffer: the files of stores cannot read lines with a limit."""
    with store.open(key, "rb", compression=_get_compression(key)) as file, io.BufferedReader(file, 1 << 16) as reader:
        yield reader


def _describe_sample(
    store: AbstractFileSystem, location: ObjectPath, key: str, context: SourceContext
) -> dict[str, Any]:
    row = _describe_object(store.info(key))
    kind = location.get_format(key)
    if kind not in ("csv", "tsv", "ndjson", "json"):
        return row
    try:
        with _open_buffered(store, key) as file:
            first = list(islice(decode_records(file, kind, context.limit), SAMPLE_COUNT))
    except (PatchbayError, *STORAGE_ERRORS) as problem:
        return {**row, "problem": str(problem)}
    return {**row, "fields": list(dict.fromkeys(name for record in first for name in record))}


def _put_file(store: AbstractFileSystem, file: str, key: str) -> None:
    """Store a local file under a key, as a whole. In a local folder it is written beside the key and then moved."""
    if "file" not in store.protocol:
        store.put_file(file, key)
        return
    store.makedirs(store._parent(key), exist_ok=True)
    beside = f"{key}.{uuid4().hex}.part"
    try:
        store.put_file(file, beside)
        store.mv(beside, key)
    finally:
        if store.exists(beside):
            store.rm_file(beside)
