"""The source for object stores, through fsspec: S3, and every other store that it has a client for.

A bucket or a folder is listed; a key or a pattern is read as records, object after object, line by line where the
format has lines. `put` writes one object, whole or not at all. There is no schema, so no hash: a profile is valid as
long as each of its patterns still has objects.
Sources: JN-53, JN-54, JN-64, JN-67.
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
"""Keys that `explores` looks at."""

SAMPLE_COUNT = 5
"""Objects of which `explores` gives the metadata, and records of which it gives the fields."""

MAX_OBJECTS_PER_PATTERN = 1_000_000
"""Objects that one pattern may have."""


class ObjectSource:
    """One family of stores. `name` is the plugin of its profiles, `schemes` those of its addresses."""

    def __init__(self, name: str, schemes: Collection[str]) -> None:
        self.name = name
        self.schemes = schemes

    def claims(self, address: str) -> bool:
        """Nothing beside our schemes."""
        return False

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """The records of the objects, or the list of a bucket or folder."""
        place = parse_object_path(address, context, self.name)
        with _open_store(place) as store:
            if place.is_prefix:
                yield from ({"type": "object", **row} for row in _list_objects(store, place))
                return
            keys = _list_keys(store, place)
            for key in keys:
                yield from _read_records(store, place, key, context)

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Write all records as one object, in the format of its name; what was there is replaced when all are in."""
        place = parse_object_path(address, context, self.name)
        if place.is_pattern or place.is_prefix:
            raise InvalidParams(f"{place.label}: expected one key to write to")
        kind = place.get_format(place.path)
        compression = _get_compression(place.path)
        with _open_store(place) as store, tempfile.NamedTemporaryFile() as whole, tempfile.TemporaryFile() as spool:
            with fsspec.open(f"file://{whole.name}", "wb", compression=compression) as file:
                plain = (get_arguments({**(arguments or {}), **record}) for record in records)
                count = encode_records(plain, kind, cast(Any, spool), file)
            _put_file(store, whole.name, place.path)
            size = store.size(place.path)
        yield {"type": "object_written", "key": place.path, "format": kind, "records": count, "size": size}

    def inspects(self, address: str, context: SourceContext) -> dict[str, Any]:
        """The objects as resources (JN-33)."""
        place = parse_object_path(address, context, self.name)
        with _open_store(place) as store:
            rows = list(islice(_list_objects(store, place), MAX_EXPLORED_KEYS))
        return {
            "server": place.bucket or place.scheme,
            "transport": place.scheme,
            "address": place.label,
            "tools": [],
            "resources": [
                {
                    "uri": f"{place.scheme}://{row['key']}",
                    "name": row["key"].rpartition("/")[2],
                    "description": f"{row['size']} bytes",
                    "mimeType": _MEDIA_TYPES.get(get_format_of_name(row["key"]), "application/octet-stream"),
                }
                for row in rows
            ],
        }

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """Keys, patterns, metadata of some objects, and the fields of their first records (JN-54)."""
        place = parse_object_path(address, context, self.name)
        with _open_store(place) as store:
            rows = list(islice(_list_objects(store, place, deep=True), MAX_EXPLORED_KEYS + 1))
            shown = rows[:MAX_EXPLORED_KEYS]
            patterns = infer_key_patterns(shown)
            samples = [_describe_sample(store, place, row["example"], context) for row in patterns[:SAMPLE_COUNT]]
        return {
            "plugin": self.name,
            "service": place.bucket or place.scheme,
            "version_hash": None,
            "discoverable": {
                "keys": [row["key"] for row in shown],
                "patterns": patterns,
                "sample_metadata": samples,
                "truncated": len(rows) > MAX_EXPLORED_KEYS,
            },
        }

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Whether the store can be read and each pattern of the profile has objects."""
        try:
            changes = []
            for name, row in get_structure(profile).items() or [("", {"pattern": ""})]:
                place = make_object_path(profile, make_glob(str(row["pattern"])), context)
                with _open_store(place) as store:
                    found = next(iter(_list_objects(store, place)), None)
                if found is None:
                    sentence = f"Structure '{name}': no object fits {row['pattern']!r}"
                    changes.append(ContractChange(name, "/pattern", "breaking", sentence))
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)
        if changes:
            return ValidationResult("changed", "The store no longer has what the profile names", tuple(changes))
        return ValidationResult("valid", "Every pattern has objects")

    def versions(self, address: str, context: SourceContext) -> str | None:
        """None: contents change all the time."""
        return None


_MEDIA_TYPES = {
    "ndjson": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "text": "text/plain",
}

STORAGE_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What a file that is not what its name says, or a store that fails, raises."""

_CLIENT_LIBRARIES = ("botocore", "aiobotocore", "google", "gcsfs", "azure", "aiohttp")
"""Libraries below fsspec that raise errors of their own."""


_S3_CLIENT_OPTIONS = {"connect_timeout": 15, "retries": {"mode": "standard", "total_max_attempts": 2}}
"""Of S3's client: seconds, and how often it tries."""


@contextmanager
def _open_store(place: ObjectPath) -> Iterator[AbstractFileSystem]:
    """The client of a store; whatever it says is one of our errors."""
    store = _make_store(place)
    try:
        yield store
    except PatchbayError:
        raise
    except FileNotFoundError as problem:
        raise ResourceNotFound(place.label) from problem
    except STORAGE_ERRORS as problem:
        raise Unreachable(f"{place.label}: {type(problem).__name__}: {problem}") from problem
    except Exception as problem:
        if not type(problem).__module__.startswith(_CLIENT_LIBRARIES):
            raise
        raise Unreachable(f"{place.label}: {type(problem).__name__}: {problem}") from problem


def _make_store(place: ObjectPath) -> AbstractFileSystem:
    # Nothing is kept between commands: neither clients with their credentials nor listings.
    options = {"use_listings_cache": False, "skip_instance_cache": True, **place.options}
    if place.scheme in S3_SCHEMES:
        options = {"config_kwargs": _S3_CLIENT_OPTIONS, **options}
    try:
        return fsspec.filesystem("s3" if place.scheme in S3_SCHEMES else place.scheme, **options)
    except ImportError as problem:
        raise Unreachable(f"{place.label}: {problem}; for S3: pip install 'patchbay[s3]'") from problem
    except (OSError, ValueError, TypeError) as problem:
        raise Unreachable(f"{place.label}: the client cannot be made: {problem}") from problem


def _describe_object(store: AbstractFileSystem, info: Mapping[str, Any]) -> dict[str, Any]:
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


def _list_objects(store: AbstractFileSystem, place: ObjectPath, deep: bool = False) -> Iterator[dict[str, Any]]:
    """The objects at a place, in the order of their keys; of a folder those in it, or with `deep` all below."""
    if place.is_pattern:
        found = store.glob(place.path, detail=True)
    elif deep or place.is_prefix:
        found = store.find(place.path, maxdepth=None if deep else 1, withdirs=not deep, detail=True)
    else:
        found = {place.path: store.info(place.path)}
    for key in sorted(found):
        if found[key].get("type") == "file":
            yield _describe_object(store, found[key])
        elif not deep and not place.is_pattern and key.rstrip("/") != place.path.rstrip("/"):
            yield {"key": key.rstrip("/") + "/", "size": 0}


def _list_keys(store: AbstractFileSystem, place: ObjectPath) -> list[str]:
    if not place.is_pattern:
        return [place.path]
    found = [row["key"] for row in islice(_list_objects(store, place), MAX_OBJECTS_PER_PATTERN)]
    if not found:
        raise ResourceNotFound(place.label, "no object fits")
    return found


def _get_compression(key: str) -> str | None:
    known = {"gz": "gzip", "bz2": "bz2", "xz": "xz", "zst": "zstd"}
    return known.get(key.rpartition(".")[2].lower())


def _read_records(store: AbstractFileSystem, place: ObjectPath, key: str, context: SourceContext) -> Iterator[Record]:
    """The records of one object. Of a pattern each says which, and one that cannot be read gives an error record."""
    mark = {"_key": key} if place.is_pattern else {}
    try:
        with _open_buffered(store, key) as file:
            for record in decode_records(file, place.get_format(key), context.limit):
                yield {**record, **mark}
    except (PatchbayError, *STORAGE_ERRORS) as problem:
        if not place.is_pattern:
            raise
        words = problem.message if isinstance(problem, PatchbayError) else f"{type(problem).__name__}: {problem}"
        yield make_error_record("object_error", words, **mark)


@contextmanager
def _open_buffered(store: AbstractFileSystem, key: str) -> Iterator[io.BufferedReader]:
    """An object's bytes, decompressed: stores' own files do not read lines with a limit."""
    with store.open(key, "rb", compression=_get_compression(key)) as file, io.BufferedReader(file, 1 << 16) as reader:
        yield reader


def _describe_sample(store: AbstractFileSystem, place: ObjectPath, key: str, context: SourceContext) -> dict[str, Any]:
    row = _describe_object(store, store.info(key))
    kind = place.get_format(key)
    if kind not in ("csv", "tsv", "ndjson", "json"):
        return row
    try:
        with _open_buffered(store, key) as file:
            first = list(islice(decode_records(file, kind, context.limit), SAMPLE_COUNT))
    except (PatchbayError, *STORAGE_ERRORS) as problem:
        return {**row, "problem": str(problem)}
    return {**row, "fields": list(dict.fromkeys(name for record in first for name in record))}


def _put_file(store: AbstractFileSystem, file: str, key: str) -> None:
    """Put a local file under a key. Stores do that whole; in a local folder a file is put beside it and moved."""
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
