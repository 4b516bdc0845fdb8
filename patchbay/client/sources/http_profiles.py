"""The endpoints of an `http` profile: alone, or together with the document that describes them.

    "endpoints": {"alterations": {"path": "/alterations", "method": "GET", "parameters": {"limit": {"default": 100}},
                                  "pagination": {"type": "cursor", "field": "next_cursor"}, "notes": "..."}}

An endpoint belongs to the operation of its name, or of its field `operation`, or of its method and path. `tools` and
tool files are endpoints too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.client.addresses.variables import ProfileError
from patchbay.client.openapi.operations import METHODS, Api, Operation
from patchbay.client.profiles.layouts import Profile, parse_tool

_EXTRA_FIELDS = ("pagination", "output_format", "notes")


def collect_endpoints(profile: Profile) -> dict[str, dict[str, Any]]:
    """Collect the endpoints of a profile by name, with parameters as `inputSchema`. Raises ProfileError."""
    where = f"{profile.directory or profile.name}/_meta.json"
    rows = profile.fields.get("endpoints", {})
    if not isinstance(rows, dict):
        raise ProfileError(where, "endpoints", "expected an object of endpoints by name")
    found = {name: parse_tool(name, row, where, f"endpoints.{name}") for name, row in rows.items()}
    for name, tool in profile.tools.items():
        found[name] = {**found.get(name, {}), **tool}
    return found


def add_endpoint_tools(profile: Profile, operations: Mapping[str, Operation]) -> Profile:
    """Return the profile with its endpoints as tools, named like their operations, so that they are compared like
    tools.

    An endpoint without an operation keeps its own name.
    """
    rows = collect_endpoints(profile)
    return replace(profile, tools={find_operation_name(name, row, operations): row for name, row in rows.items()})


def build_api(profile: Profile) -> Api:
    """Build the API that a profile alone describes. Raises ProfileError."""
    where = f"{profile.directory or profile.name}/_meta.json"
    paths: dict[str, Any] = {}
    for name, row in collect_endpoints(profile).items():
        method, path = _get_method(row), row.get("path")
        if method not in METHODS or not isinstance(path, str) or not path.startswith("/"):
            raise ProfileError(where, f"endpoints.{name}", "expected method, and path that starts with a /")
        parameters = [_build_parameter(key, schema, row, path) for key, schema in _get_properties(row).items()]
        about = {"operationId": name, "description": row.get("description", ""), "parameters": parameters}
        if method in paths.setdefault(path, {}):
            raise ProfileError(where, f"endpoints.{name}", f"{method.upper()} {path} appears twice")
        paths[path][method] = about | ({"requestBody": row["requestBody"]} if "requestBody" in row else {})
    return Api({"openapi": "3.1.0", "info": {"title": profile.name}, "paths": paths}, where)


def _get_properties(row: Mapping[str, Any]) -> dict[str, Any]:
    found = row.get("inputSchema", {}).get("properties", {})
    return found if isinstance(found, dict) else {}


def _build_parameter(name: str, schema: Any, row: Mapping[str, Any], path: str) -> dict[str, Any]:
    inner = dict(schema) if isinstance(schema, dict) else {}
    place = inner.pop("in", "path" if "{" + name + "}" in path else "query")
    required = name in row.get("inputSchema", {}).get("required", ())
    return {"name": name, "in": place, "required": required, "schema": inner}


def apply_profile(operations: Mapping[str, Operation], profile: Profile) -> dict[str, Operation]:
    """Add a profile's fields to the operations; each endpoint is added under its own name too."""
    found = dict(operations)
    for name, row in collect_endpoints(profile).items():
        operation = _find_operation(name, row, operations, profile)
        defaults = {key: one["default"] for key, one in _get_properties(row).items() if _has_default(one)}
        extra = {key: row[key] for key in _EXTRA_FIELDS if key in row} | ({"defaults": defaults} if defaults else {})
        found[name] = replace(operation, extra=extra)
    return found


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _find_operation(
    name: str, row: Mapping[str, Any], operations: Mapping[str, Operation], profile: Profile
) -> Operation:
    found = operations.get(find_operation_name(name, row, operations))
    if found is not None:
        return found
    path, wanted = row.get("path"), str(row.get("operation", name))
    raise ProfileError(
        f"{profile.directory or profile.name}/_meta.json",
        f"endpoints.{name}",
        f"the API has no operation {wanted!r}" + (f" and no {_get_method(row).upper()} {path}" if path else ""),
    )


def find_operation_name(name: str, row: Mapping[str, Any], operations: Mapping[str, Operation]) -> str:
    """Find the name of an endpoint's operation: the one that it gives, else that of its method and path."""
    wanted = str(row.get("operation", name))
    if wanted in operations:
        return wanted
    place = (row.get("path"), _get_method(row))
    return next((key for key, one in operations.items() if (one.path, one.method) == place), wanted)


def _get_method(row: Mapping[str, Any]) -> str:
    return str(row.get("method", "GET")).lower()
