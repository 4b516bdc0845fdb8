"""The path prefix of a hub behind a proxy: which one is valid, and which paths are below it.

Requirement: issue 47 item 16.
"""

from __future__ import annotations

import pytest

from patchbay.errors import ConfigError
from patchbay.hosts.path_prefix import MAX_PREFIX_CHARACTERS, add_prefix, check_path_prefix, strip_prefix
from patchbay.settings import Settings


@pytest.mark.parametrize("prefix", ["", "/hub", "/tools/hub", "/a-b_c~d.e", "/..hub", "/hub.v2"])
def test_a_path_of_unreserved_characters_is_a_prefix(prefix: str) -> None:
    assert check_path_prefix(prefix) == prefix


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        ("hub", "does not begin with a slash"),
        ("https://example.org/hub", "does not begin with a slash"),
        ("/", "ends with a slash"),
        ("/hub/", "ends with a slash"),
        ("//hub", "each part has letters"),
        ("/hub//mcp", "each part has letters"),
        ("/hub?a=b", "each part has letters"),
        ("/hub#a", "each part has letters"),
        ("/hub%2Fmcp", "each part has letters"),
        ("/hüb", "each part has letters"),
        ("/hub\n", "each part has letters"),
        ("/hub\\mcp", "each part has letters"),
        ("/hub;a", "each part has letters"),
        ('/hub"', "each part has letters"),
        ("/..", "a part is . or .."),
        ("/hub/../mcp", "a part is . or .."),
        ("/./hub", "a part is . or .."),
        ("/.well-known/hub", "belongs to the host"),
        ("/" + "h" * MAX_PREFIX_CHARACTERS, "at most 200"),
    ],
)
def test_another_text_is_refused_with_the_reason_and_the_expected_form(prefix: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load({"path_prefix": prefix}, {})
    assert "--path-prefix: expected a path such as /hub" in caught.value.message and reason in caught.value.message


def test_the_setting_comes_from_the_environment_and_from_the_public_url() -> None:
    assert Settings.load({}, {"PATCHBAY_PATH_PREFIX": "/hub"}).path_prefix == "/hub"
    assert Settings.load({"public_url": "https://example.org/hub/"}, {}).path_prefix == "/hub"
    assert Settings.load({"public_url": "https://example.org", "path_prefix": "/hub"}, {}).path_prefix == "/hub"
    assert Settings.load({"public_url": "https://example.org/"}, {}).path_prefix == ""


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/hub", "/"),
        ("/hub/", "/"),
        ("/hub/mcp/echo", "/mcp/echo"),
        ("/mcp/echo", "/mcp/echo"),
        ("/hubevil/mcp", "/hubevil/mcp"),
        ("/hub/hub/mcp", "/hub/mcp"),
        ("/hub//evil.example", "//evil.example"),
        ("/HUB/mcp", "/HUB/mcp"),
        ("/other/hub/mcp", "/other/hub/mcp"),
        ("", ""),
        ("*", "*"),
        ("/.well-known/oauth-protected-resource/hub/mcp/echo", "/.well-known/oauth-protected-resource/mcp/echo"),
        ("/.well-known/oauth-protected-resource/hub", "/.well-known/oauth-protected-resource"),
        ("/.well-known/oauth-protected-resource/hubevil", "/.well-known/oauth-protected-resource/hubevil"),
        ("/.well-known/oauth-authorization-server/hub", "/.well-known/oauth-authorization-server"),
        ("/.well-known/openid-configuration/hub", "/.well-known/openid-configuration"),
        ("/.well-known/other/hub", "/.well-known/other/hub"),
    ],
)
def test_only_the_whole_prefix_at_the_beginning_of_a_path_is_taken_off_once(path: str, inside: str) -> None:
    assert strip_prefix("/hub", path) == inside


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("/", "/hub/"),
        ("/mcp", "/hub/mcp"),
        ("/hub/mcp", "/hub/mcp"),
        ("/hubevil", "/hub/hubevil"),
        ("//evil.example", "/hub//evil.example"),
        ("https://example.org/", "https://example.org/"),
        ("?page=2", "?page=2"),
        ("#top", "#top"),
        ("", ""),
    ],
)
def test_a_path_of_the_hub_gets_the_prefix_and_other_addresses_stay(path: str, outside: str) -> None:
    assert add_prefix("/hub", path) == outside
    assert add_prefix("", path) == path
