"""What the hub offers of an entry of the official registry, as its API (2025-12-01) describes entries."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.client.registry.offers import OFFICIAL, Offer, make_fields, read_server
from patchbay.errors import ConfigError
from tests.cli.registries import package, server


def offer_of(**more: Any) -> Offer:
    """The only offer of an entry with one package."""
    found = read_server(server("com.example/one", "One", "1.0.0", packages=[package("npm", "one", "1.0.0", **more)]))
    assert found is not None and len(found.offers) == 1, found
    return found.offers[0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"registryBaseUrl": "https://npm.example"}, "in the registry https://npm.example"),
        ({"registryBaseUrl": ["x"]}, "which the hub does not use"),
        ({"fileSha256": "a" * 64}, "a hash of its file"),
        ({"runtimeArguments": [{"type": "named", "name": "--prefix", "value": "/srv"}]}, "arguments of the launcher"),
        ({"runtimeArguments": [{"type": "positional", "value": ["x"]}]}, "arguments of the launcher"),
    ],
)
def test_a_package_that_the_launcher_would_not_run_as_described_is_no_offer(more: dict[str, Any], says: str) -> None:
    """37.4: a package of the same name at the public registry may be another one."""
    found = read_server(server("com.example/one", "One", "1.0.0", packages=[package("npm", "one", "1.0.0", **more)]))
    assert found is not None and found.offers == () and says in found.others[0]


def test_the_public_registries_and_quiet_arguments_of_the_launcher_are_no_obstacle() -> None:
    """37.4"""
    quiet = [{"type": "named", "name": "-y"}]
    made = offer_of(registryBaseUrl="https://registry.npmjs.org/", runtimeArguments=quiet)
    assert made.address == "mcp+npx://one@1.0.0"


def test_a_deleted_server_is_not_there_and_a_deprecated_one_says_why() -> None:
    """37.4"""
    entry = server("com.example/one", "One", "1.0.0", packages=[package("npm", "one", "1.0.0")])
    entry["_meta"] = {OFFICIAL: {"status": "deprecated", "statusMessage": "Use\ntwo."}}
    found = read_server(entry)
    assert found is not None and found.warning == "deprecated: Use two."
    entry["_meta"][OFFICIAL]["status"] = "deleted"
    assert read_server(entry) is None


def test_values_that_the_registry_fixes_are_set_and_choices_are_checked() -> None:
    """37.4"""
    made = offer_of(
        environmentVariables=[
            {"name": "MODE", "value": "stdio"},
            {"name": "LEVEL", "choices": ["low", "high"]},
        ]
    )
    assert make_fields(made, {})["environment"] == {"MODE": "stdio"}
    assert make_fields(made, {"LEVEL": "high"})["environment"] == {"LEVEL": "high", "MODE": "stdio"}
    with pytest.raises(ConfigError, match="expected one of low, high"):
        make_fields(made, {"LEVEL": "other"})
    with pytest.raises(ConfigError, match="no other value"):
        make_fields(made, {"MODE": "http"})
