"""Which object store, bucket and keys an address or a profile names, and with which client options.

    s3://BUCKET/KEY-OR-PATTERN[?QUERY]    and gs:, az:, abfs:, oss:, oci:, file:, memory:, as fsspec knows them
    @PROFILE[/STRUCTURE][?PLACEHOLDER=..] a row of the profile's `structure`; or a key or pattern of its bucket

`*` and `[a-z]` stay inside one part of a key, `**` does not; the query begins at the first `?`, so that is no wildcard.
Query: `format=`, `option.NAME=` (an option of the store's client), placeholders of a structure's pattern.
Credentials come from the environment (`AWS_ACCESS_KEY_ID`, ...), or a profile's `${VAR}`, never from a file of ours.
Sources: JN-64, JN-67.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.addresses.query import decoded, pairs, sayable
from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars_recursive
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import SourceContext, scheme_of
from patchbay.client.sources.formats import FORMATS, format_of_name
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

S3 = ("s3", "s3a")
OTHERS = ("gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "file", "memory")
WILD = re.compile(r"[*\[]")
PLACEHOLDER = re.compile(r"YYYY|MM|DD|HH|\{([A-Za-z_][A-Za-z0-9_]*)\}")
CONNECTION = ("region", "credentials", "endpoint_url", "scheme", "options", "timeout")
"""What the `connection` of a profile may say."""


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """Some objects: `path` is a key with its bucket, a prefix that ends with `/`, or a pattern."""

    described: str
    scheme: str
    path: str
    format: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_pattern(self) -> bool:
        """Whether the path stands for whatever fits it."""
        return WILD.search(self.path) is not None

    @property
    def is_prefix(self) -> bool:
        """Whether the path is a bucket or a folder, to be listed."""
        return self.path.endswith("/") or (self.scheme in S3 and "/" not in self.path) or not self.path

    @property
    def bucket(self) -> str:
        """The first part of the path: the bucket or container."""
        return self.path.strip("/").partition("/")[0]

    def format_of(self, key: str) -> str:
        """The format of one object."""
        return self.format or format_of_name(key)


def place_of(address: str, means: SourceContext, plugin: str) -> ObjectPath:
    """What an address says. Raises AddressError, ProfileError."""
    sayable(address, "the address")
    place, _, text = address.partition("?")
    rows = pairs(text)
    options = {key[len("option.") :]: _literal(value) for key, value in rows if key.startswith("option.")}
    plain = {key: value for key, value in rows if not key.startswith("option.")}
    kind = plain.pop("format", "")
    if kind and kind not in FORMATS:
        raise AddressError(f"format={kind[:80]}: expected one of {', '.join(FORMATS)}")
    if address.startswith("@"):
        return _of_reference(place, plain, kind, options, means, plugin)
    if plain:
        raise AddressError(f"{next(iter(plain))}=: expected format= or option.NAME=")
    scheme = scheme_of(place)
    path = decoded(place[len(scheme) + 1 :].removeprefix("//"), f"{scheme}:")
    if scheme in S3 and not path:
        raise AddressError(f"{scheme}://: expected a bucket")
    options = substitute_env_vars_recursive(
        {**_from_environment(scheme, means), **options}, means.environ, "the address"
    )
    return ObjectPath(place, scheme, _absolute(scheme, path), kind, options)


def _absolute(scheme: str, path: str) -> str:
    return "/" + path if scheme == "memory" and not path.startswith("/") else path


def _literal(value: str) -> Any:
    """An option as JSON where it is JSON, else as text."""
    try:
        return parse(value.encode())
    except ParseError:
        return value


def _from_environment(scheme: str, means: SourceContext) -> dict[str, Any]:
    """What the environment says about S3; other stores' clients look for themselves."""
    if scheme not in S3:
        return {}
    found = {
        option: next((means.environ[name] for name in names if means.environ.get(name)), None)
        for option, names in (
            ("key", ("AWS_ACCESS_KEY_ID",)),
            ("secret", ("AWS_SECRET_ACCESS_KEY",)),
            ("token", ("AWS_SESSION_TOKEN",)),
            ("endpoint_url", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")),
        )
    }
    region = means.environ.get("AWS_REGION") or means.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    return options | ({"client_kwargs": {"region_name": region}} if region else {})


def structure_of(profile: Profile) -> dict[str, dict[str, Any]]:
    """The rows of a profile's `structure`, each with a `pattern`. Raises ProfileError."""
    where = _where(profile)
    rows = profile.fields.get("structure", {})
    good = isinstance(rows, dict) and all(
        isinstance(row, dict) and isinstance(row.get("pattern"), str) for row in rows.values()
    )
    if not good:
        raise ProfileError(where, "structure", 'expected an object of rows such as {"pattern": "raw/YYYY/MM/*.csv"}')
    return dict(rows)


def place_in(profile: Profile, pattern: str, means: SourceContext, kind: str = "", described: str = "") -> ObjectPath:
    """A key or pattern in the bucket of a profile. Raises ProfileError."""
    where = _where(profile)
    bucket = profile.fields.get("bucket", "")
    scheme = profile.launch.get("scheme", "s3" if profile.plugin == "s3" else "file")
    if not isinstance(bucket, str) or scheme not in (*S3, *OTHERS):
        raise ProfileError(where, "", f"expected bucket, a string, and a scheme of {', '.join((*S3, *OTHERS))}")
    path = f"{bucket.rstrip('/')}/{pattern.lstrip('/')}" if bucket else pattern
    options = _from_environment(scheme, means) | _connection(profile, means, where)
    return ObjectPath(described or f"@{profile.name}", scheme, _absolute(scheme, path), kind, options)


def _connection(profile: Profile, means: SourceContext, where: str) -> dict[str, Any]:
    other = sorted(set(profile.launch) - set(CONNECTION))
    if other:
        raise ProfileError(where, f"connection.{other[0]}", f"expected only {', '.join(CONNECTION)}")
    said = substitute_env_vars_recursive(dict(profile.launch), means.environ, where, "connection")
    options = said.get("options", {})
    if not isinstance(options, dict):
        raise ProfileError(where, "connection.options", "expected an object")
    if "credentials" in said:
        key, slash, secret = str(said["credentials"]).partition("/")
        if not slash:
            raise ProfileError(where, "connection.credentials", "expected ${KEY_ID}/${SECRET}")
        options = {"key": key, "secret": secret, **options}
    options = options | ({"endpoint_url": said["endpoint_url"]} if "endpoint_url" in said else {})
    return options | ({"client_kwargs": {"region_name": said["region"]}} if "region" in said else {})


def _of_reference(
    place: str, given: dict[str, str], kind: str, options: dict[str, Any], means: SourceContext, plugin: str
) -> ObjectPath:
    name, _, rest = place[1:].partition("/")
    profile = means.profiles(plugin).load(name)
    rest = decoded(rest, place)
    row = structure_of(profile).get(rest)
    pattern = rest if row is None else _filled(str(row["pattern"]), given)
    if given:
        raise AddressError(
            f"{place}: {next(iter(given))}=: expected format=, option.NAME= or a placeholder of a pattern"
        )
    kind = kind or (str(row.get("format", "")) if row else "")
    found = place_in(profile, pattern, means, kind if kind in FORMATS else "", place)
    return ObjectPath(found.described, found.scheme, found.path, found.format, {**found.options, **options})


def _filled(pattern: str, given: dict[str, str]) -> str:
    """A pattern with its placeholders put in; what is not given is any. Those used are taken out of `given`."""

    def value(found: re.Match[str]) -> str:
        text = given.pop(found[1] or found[0], "*")
        if "/" in text:
            raise AddressError(f"{found[0]}: expected one part of a key, got {text[:80]!r}")
        return text

    return PLACEHOLDER.sub(value, pattern)


def as_glob(pattern: str) -> str:
    """A structure's pattern with every placeholder open."""
    return PLACEHOLDER.sub("*", pattern)


def _where(profile: Profile) -> str:
    return f"{profile.directory or profile.name}/_meta.json"
