"""From an address to a reach: profiles and presets looked up, variables put in. And JN's own forms of the same.

`reached` is what commands use. `load_hierarchical_profile` and `resolve_profile_reference` answer as JN's resolver did
(JN-39): plain dicts, variables put in, `@server` alone lists resources. Sources: JN-7 to JN-11, JN-15, JN-16, JN-31,
JN-C11, JN-C12, J-F6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.client.addresses.address import Address, Named, parse_address, preset_named
from patchbay.client.addresses.targets import AddressError, Reach
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars_recursive, substituted
from patchbay.client.profiles.layouts import reach_of
from patchbay.client.profiles.lookup import Profiles

_OPERATIONS = {"call": "tool", "read": "resource"}


def reached(address: Address, profiles: Profiles, environ: Mapping[str, str]) -> Reach:
    """How to reach what an address names, `${VAR}`s put in. Raises ProfileError, AddressError."""
    target = address.target
    if isinstance(target, Named) and target.kind == "profile":
        tool = address.name if address.operation == "call" else ""
        return reach_of(profiles.load(target.name), environ, tool)
    if isinstance(target, Named):
        rows, where = profiles.presets()
        return substituted(preset_named(target.name, rows, where), environ, f"mcp://{target.name}")
    return substituted(target, environ, "the address")


def load_hierarchical_profile(
    profiles: Profiles, environ: Mapping[str, str], server: str, tool: str | None = None
) -> dict[str, Any]:
    """A profile as one object: launch and universal fields, a tool's own over them, variables put in (JN-16).

    A tool without a file adds nothing (it may be dynamic). Raises ProfileError.
    """
    found = profiles.load(server)
    own = {"tool": tool, **found.tools[tool]} if tool is not None and tool in found.tools else {}
    merged = {**found.launch, **found.fields, **own}
    return dict(substitute_env_vars_recursive(merged, environ, str(found.directory)))


def resolve_profile_reference(
    profiles: Profiles, environ: Mapping[str, str], reference: str, params: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`@server[/tool][?query]` as (server configuration, operation): `type`, `tool` or `resource`, `params` (J-F6).

    The caller's parameters win (JN-C12). Raises ProfileError, which says so when it is no reference at all.
    """
    if not reference.startswith("@"):
        raise ProfileError("reference", "", f"Invalid profile reference (must start with @): {reference[:200]}")
    try:
        address = parse_address(reference).with_arguments(exact=params)
    except AddressError as problem:
        raise ProfileError("reference", "", problem.message) from problem
    if not isinstance(address.target, Named):
        raise ProfileError("reference", "", f"Invalid profile reference: {reference[:200]}")
    tool = address.name if address.operation == "call" else None
    configuration = load_hierarchical_profile(profiles, environ, address.target.name, tool)
    return configuration, {**_operation(address), "params": {**address.arguments, **address.exact}}


def _operation(address: Address) -> dict[str, Any]:
    if address.operation in _OPERATIONS:
        kind = "call_tool" if address.operation == "call" else "read_resource"
        return {"type": kind, _OPERATIONS[address.operation]: address.name}
    if address.operation == "prompt":
        return {"type": "get_prompt", "prompt": address.name}
    return {"type": f"list_{address.name or 'resources'}"}


def list_server_tools(profiles: Profiles, server: str) -> list[str]:
    """The tools a profile has something to say about, sorted; never `_meta` (JN-17)."""
    return list(profiles.list_server_tools(server))
