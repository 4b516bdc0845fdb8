"""Parse the address or the profile of an object store: the store, the bucket, the keys, and the client's options.

    s3://BUCKET/KEY-OR-PATTERN[?QUERY]    and gs:, az:, abfs:, oss:, oci:, file:, memory:, as fsspec knows them
    @PROFILE[/STRUCTURE][?PLACEHOLDER=..] a row of the profile's `structure`; or a key or pattern of its bucket

`*` and `[a-z]` match inside one part of a key, `**` matches several; the query begins at the first `?`, which is not a
wildcard. Query: `format=`, `option.NAME=` (an option of the store's client), placeholders of a structure's pattern.
Credentials come from the environment (`AWS_ACCESS_KEY_ID`, ...), or from a profile's `${VAR}`, never from a file of
this program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.addresses.query import check_text, decode_percent, parse_pairs
from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars_recursive
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import SourceContext, get_scheme
from patchbay.client.sources.formats import FORMATS, get_format_of_name
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

S3_SCHEMES = ("s3", "s3a")
OTHER_SCHEMES = ("gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "file", "memory")
WILDCARD = re.compile(r"[*\[]")
PLACEHOLDER = re.compile(r"YYYY|MM|DD|HH|\{([A-Za-z_][A-Za-z0-9_]*)\}")
CONNECTION_FIELDS = ("region", "credentials", "endpoint_url", "scheme", "options", "timeout")
"""The fields of a profile's `connection`."""


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """One or more objects: `path` is a key with its bucket, a prefix that ends with `/`, or a pattern."""

    label: str
    scheme: str
    path: str
    format: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_pattern(self) -> bool:
        """Whether the path has a wildcard."""
        return WILDCARD.search(self.path) is not None

    @property
    def is_prefix(self) -> bool:
        """Whether the path is a bucket or a folder, to be listed."""
        return self.path.endswith("/") or (self.scheme in S3_SCHEMES and "/" not in self.path) or not self.path

    @property
    def bucket(self) -> str:
        """The first part of the path: the bucket or container."""
        return self.path.strip("/").partition("/")[0]

    def get_format(self, key: str) -> str:
        """Get the format of one object."""
        return self.format or get_format_of_name(key)


def parse_object_path(address: str, context: SourceContext, plugin: str) -> ObjectPath:
    """Parse an address. Raises AddressError, ProfileError."""
    check_text(address, "the address")
    place, _, text = address.partition("?")
    rows = parse_pairs(text)
    options = {key[len("option.") :]: _parse_option(value) for key, value in rows if key.startswith("option.")}
    plain = {key: value for key, value in rows if not key.startswith("option.")}
    kind = plain.pop("format", "")
    if kind and kind not in FORMATS:
        raise AddressError(f"format={kind[:80]}: expected one of {', '.join(FORMATS)}")
    if address.startswith("@"):
        return _resolve_reference(place, plain, kind, options, context, plugin)
    if plain:
        raise AddressError(f"{next(iter(plain))}=: expected format= or option.NAME=")
    scheme = get_scheme(place)
    path = decode_percent(place[len(scheme) + 1 :].removeprefix("//"), f"{scheme}:")
    if scheme in S3_SCHEMES and not path:
        raise AddressError(f"{scheme}://: expected a bucket")
    options = substitute_env_vars_recursive(
        {**_read_environment_options(scheme, context), **options}, context.environ, "the address"
    )
    return ObjectPath(place, scheme, _make_absolute(scheme, path), kind, options)


def _make_absolute(scheme: str, path: str) -> str:
    return "/" + path if scheme == "memory" and not path.startswith("/") else path


def _parse_option(value: str) -> Any:
    """Parse an option as JSON, else as text."""
    try:
        return parse(value.encode())
    except ParseError:
        return value


def _read_environment_options(scheme: str, context: SourceContext) -> dict[str, Any]:
    """Read the options of S3 from the environment; the clients of other stores read it themselves."""
    if scheme not in S3_SCHEMES:
        return {}
    found = {
        option: next((context.environ[name] for name in names if context.environ.get(name)), None)
        for option, names in (
            ("key", ("AWS_ACCESS_KEY_ID",)),
            ("secret", ("AWS_SECRET_ACCESS_KEY",)),
            ("token", ("AWS_SESSION_TOKEN",)),
            ("endpoint_url", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")),
        )
    }
    region = context.environ.get("AWS_REGION") or context.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    return options | ({"client_kwargs": {"region_name": region}} if region else {})


def get_structure(profile: Profile) -> dict[str, dict[str, Any]]:
    """Get the rows of a profile's `structure`, each with a `pattern`. Raises ProfileError."""
    where = _get_profile_file(profile)
    rows = profile.fields.get("structure", {})
    good = isinstance(rows, dict) and all(
        isinstance(row, dict) and isinstance(row.get("pattern"), str) for row in rows.values()
    )
    if not good:
        raise ProfileError(where, "structure", 'expected an object of rows such as {"pattern": "raw/YYYY/MM/*.csv"}')
    return dict(rows)


def make_object_path(
    profile: Profile, pattern: str, context: SourceContext, kind: str = "", described: str = ""
) -> ObjectPath:
    """Make the path of a key or pattern in the bucket of a profile. Raises ProfileError."""
    where = _get_profile_file(profile)
    bucket = profile.fields.get("bucket", "")
    scheme = profile.launch.get("scheme", "s3" if profile.plugin == "s3" else "file")
    if not isinstance(bucket, str) or scheme not in (*S3_SCHEMES, *OTHER_SCHEMES):
        raise ProfileError(
            where, "", f"expected bucket, a string, and a scheme of {', '.join((*S3_SCHEMES, *OTHER_SCHEMES))}"
        )
    path = f"{bucket.rstrip('/')}/{pattern.lstrip('/')}" if bucket else pattern
    options = _read_environment_options(scheme, context) | _read_connection_options(profile, context, where)
    return ObjectPath(described or f"@{profile.name}", scheme, _make_absolute(scheme, path), kind, options)


def _read_connection_options(profile: Profile, context: SourceContext, where: str) -> dict[str, Any]:
    other = sorted(set(profile.launch) - set(CONNECTION_FIELDS))
    if other:
        raise ProfileError(where, f"connection.{other[0]}", f"expected only {', '.join(CONNECTION_FIELDS)}")
    connection = substitute_env_vars_recursive(dict(profile.launch), context.environ, where, "connection")
    options = connection.get("options", {})
    if not isinstance(options, dict):
        raise ProfileError(where, "connection.options", "expected an object")
    if "credentials" in connection:
        key, slash, secret = str(connection["credentials"]).partition("/")
        if not slash:
            raise ProfileError(where, "connection.credentials", "expected ${KEY_ID}/${SECRET}")
        options = {"key": key, "secret": secret, **options}
    options = options | ({"endpoint_url": connection["endpoint_url"]} if "endpoint_url" in connection else {})
    return options | ({"client_kwargs": {"region_name": connection["region"]}} if "region" in connection else {})


def _resolve_reference(
    place: str, given: dict[str, str], kind: str, options: dict[str, Any], context: SourceContext, plugin: str
) -> ObjectPath:
    name, _, rest = place[1:].partition("/")
    profile = context.get_profiles(plugin).load(name)
    rest = decode_percent(rest, place)
    row = get_structure(profile).get(rest)
    pattern = rest if row is None else _fill_pattern(str(row["pattern"]), given)
    if given:
        raise AddressError(
            f"{place}: {next(iter(given))}=: expected format=, option.NAME= or a placeholder of a pattern"
        )
    kind = kind or (str(row.get("format", "")) if row else "")
    found = make_object_path(profile, pattern, context, kind if kind in FORMATS else "", place)
    return ObjectPath(found.label, found.scheme, found.path, found.format, {**found.options, **options})


def _fill_pattern(pattern: str, given: dict[str, str]) -> str:
    """Fill the placeholders of a pattern; a missing value is `*`. Used values are removed from `given`."""

    def value(found: re.Match[str]) -> str:
        text = given.pop(found[1] or found[0], "*")
        if "/" in text:
            raise AddressError(f"{found[0]}: expected one part of a key, got {text[:80]!r}")
        return text

    return PLACEHOLDER.sub(value, pattern)


def make_glob(pattern: str) -> str:
    """Replace every placeholder of a structure's pattern by `*`."""
    return PLACEHOLDER.sub("*", pattern)


def _get_profile_file(profile: Profile) -> str:
    return f"{profile.directory or profile.name}/_meta.json"
