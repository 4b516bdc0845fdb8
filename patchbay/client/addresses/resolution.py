"""From an address to its target: look up the profile or preset that it names, and replace its variables.

`resolve_address` does this once for a command; its result goes along with the address. `load_hierarchical_profile` and
`resolve_profile_reference` give the same as the plain dictionaries that JN's own resolver returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchbay.client.addresses.address import Address, NamedServer, find_preset, parse_address
from patchbay.client.addresses.targets import AddressError, Target
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars_recursive, substitute_in_target
from patchbay.client.profiles.layouts import Profile, get_target, get_timeout
from patchbay.client.profiles.lookup import Profiles

_OPERATIONS = {"call": "tool", "read": "resource"}


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """A parsed address with what was looked up for it.

    `target` has its `${VAR}`s replaced. `profile` is the profile of an address `@name`, None for every other address.
    """

    address: Address
    target: Target
    profile: Profile | None = None

    @property
    def tool(self) -> str:
        """The tool that the address calls, "" when it calls none."""
        return self.address.name if self.address.operation == "call" else ""

    @property
    def timeout(self) -> float | None:
        """Seconds for one request as the profile sets them, None when it does not. Raises ProfileError."""
        return get_timeout(self.profile, self.tool) if self.profile is not None else None

    def with_arguments(self, exact: Mapping[str, Any]) -> ResolvedAddress:
        """Return the same address with JSON arguments, which replace arguments of the same names."""
        return replace(self, address=self.address.with_arguments(exact=exact))


def resolve_address(address: Address, profiles: Profiles, environ: Mapping[str, str]) -> ResolvedAddress:
    """Load the profile or preset that an address names and replace `${VAR}`s. Raises ProfileError, AddressError."""
    target = address.target
    if not isinstance(target, NamedServer):
        return ResolvedAddress(address, substitute_in_target(target, environ, "the address"))
    if target.kind == "profile":
        profile = profiles.load(target.name)
        tool = address.name if address.operation == "call" else ""
        return ResolvedAddress(address, get_target(profile, environ, tool), profile)
    rows, where = profiles.load_presets()
    preset = find_preset(target.name, rows, where)
    return ResolvedAddress(address, substitute_in_target(preset, environ, f"mcp://{target.name}"))


def load_hierarchical_profile(
    profiles: Profiles, environ: Mapping[str, str], server: str, tool: str | None = None
) -> dict[str, Any]:
    """Load a profile as one object: launch fields, universal fields, then the fields of one tool, variables replaced.

    A tool without a file adds nothing, because a server may list tools that the profile does not know. Raises
    ProfileError.
    """
    found = profiles.load(server)
    own = {"tool": tool, **found.tools[tool]} if tool is not None and tool in found.tools else {}
    merged = {**found.launch, **found.fields, **own}
    return dict(substitute_env_vars_recursive(merged, environ, str(found.directory)))


def resolve_profile_reference(
    profiles: Profiles, environ: Mapping[str, str], reference: str, params: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Resolve `@server[/tool][?query]` to (server configuration, operation).

    The operation has `type`, `tool` or `resource`, and `params`; `@server` alone lists resources. `params` replace
    arguments of the same names in the reference. Raises ProfileError, also for a text that is not a reference.
    """
    if not reference.startswith("@"):
        raise ProfileError("reference", "", f"Invalid profile reference (must start with @): {reference[:200]}")
    try:
        address = parse_address(reference).with_arguments(exact=params)
    except AddressError as problem:
        raise ProfileError("reference", "", problem.message) from problem
    if not isinstance(address.target, NamedServer):
        raise ProfileError("reference", "", f"Invalid profile reference: {reference[:200]}")
    tool = address.name if address.operation == "call" else None
    configuration = load_hierarchical_profile(profiles, environ, address.target.name, tool)
    return configuration, {**_describe_operation(address), "params": {**address.arguments, **address.exact}}


def _describe_operation(address: Address) -> dict[str, Any]:
    if address.operation in _OPERATIONS:
        kind = "call_tool" if address.operation == "call" else "read_resource"
        return {"type": kind, _OPERATIONS[address.operation]: address.name}
    if address.operation == "prompt":
        return {"type": "get_prompt", "prompt": address.name}
    return {"type": f"list_{address.name or 'resources'}"}


def list_server_tools(profiles: Profiles, server: str) -> list[str]:
    """List the tools that a profile has a file or a row for, sorted by name."""
    return list(profiles.list_server_tools(server))
