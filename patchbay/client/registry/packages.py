"""Mounts of packages: which package and version the file of a mount names, and the same file with another version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

_ADDRESS = re.compile(
    r"mcp\+(?P<launcher>npx|uvx)://(?P<package>@[^/@?]+/[^/@?]+|[^/@?=<>~\[]+)(?P<extras>\[[^\]]*\])?"
    r"((@|==)(?P<version>[0-9][A-Za-z0-9.!+_-]*))?(?P<rest>(/[^?]*)?(\?.*)?)"
)
"""The address of a package: a scope of npm has a slash of its own."""


@dataclass(frozen=True, slots=True)
class MountedPackage:
    """A mount of a package of `npm` or `pypi`; `version` is empty for one without an exact version."""

    name: str
    kind: str
    package: str
    version: str
    fields: Mapping[str, Any]


def mounted_package(file: Path) -> MountedPackage | None:
    """Return the package that the file of a mount names; None for any other file."""
    try:
        fields = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return describe_package(file.stem, fields) if isinstance(fields, dict) else None


def describe_package(name: str, fields: Mapping[str, Any]) -> MountedPackage | None:
    """Return the package that the configuration of the mount `name` has; None for any other mount."""
    address = fields.get("address")
    found = _parse(address) if isinstance(address, str) else None
    if found is None:
        return None
    kind = "npm" if found["launcher"] == "npx" else "pypi"
    return MountedPackage(name, kind, found["package"] or "", found["version"] or "", fields)


def mounted_packages(folder: Path) -> Iterator[MountedPackage]:
    """Yield the mounts of packages in a folder of servers, in the order of their names."""
    for file in sorted(folder.glob("*.json")):
        found = mounted_package(file)
        if found is not None:
            yield found


def with_version(mounted: MountedPackage, version: str) -> dict[str, Any]:
    """Return the fields of a mount with another version of its package."""
    found = _parse(str(mounted.fields["address"]))
    assert found is not None
    address = f"mcp+{found['launcher']}://{found['package']}{found['extras'] or ''}"
    sign = "==" if found["extras"] else "@"
    return {**mounted.fields, "address": f"{address}{sign}{version}{found['rest'] or ''}"}


def _parse(address: str) -> dict[str, str | None] | None:
    matched = _ADDRESS.fullmatch(address)
    return None if matched is None else matched.groupdict()
