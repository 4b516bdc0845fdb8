"""The addresses of a hub, from its settings."""

from __future__ import annotations

import pytest

from patchbay.errors import ConfigError
from patchbay.serving.hub_url import hub_url, public_url
from patchbay.settings import Settings

NAMED = ("localhost", "127.0.0.1", "hub.example")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (Settings(port=9123), "http://127.0.0.1:9123"),
        (Settings(port=9123, allowed_hosts=NAMED), "https://hub.example"),
        (Settings(host="0.0.0.0", port=9123, allowed_hosts=NAMED), "http://127.0.0.1:9123"),
        (Settings(host="0.0.0.0", public_url="https://hub.example/"), "https://hub.example"),
        (Settings(public_url="http://[::1]:80"), "http://[::1]:80"),
    ],
)
def test_the_public_url_is_that_of_people_elsewhere(settings: Settings, wanted: str) -> None:
    assert public_url(settings) == wanted
    assert hub_url(settings).startswith("http://127.0.0.1:")


@pytest.mark.parametrize("wrong", ["hub.example", "ftp://hub.example", "https://", "https://hub.example/hub", "x"])
def test_a_wrong_public_url_is_refused_with_the_expected_form(wrong: str) -> None:
    with pytest.raises(ConfigError, match="expected a URL without a path"):
        public_url(Settings(public_url=wrong))
