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
        (Settings(port=9123, path_prefix="/hub"), "http://127.0.0.1:9123/hub"),
        (Settings(port=9123, allowed_hosts=NAMED, path_prefix="/hub"), "https://hub.example/hub"),
        (Settings(public_url="https://hub.example", path_prefix="/hub"), "https://hub.example/hub"),
        (Settings(public_url="https://hub.example/hub/"), "https://hub.example/hub"),
    ],
)
def test_the_public_url_is_that_of_people_elsewhere(settings: Settings, wanted: str) -> None:
    assert public_url(settings) == wanted
    assert hub_url(settings).startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "wrong", ["hub.example", "ftp://hub.example", "https://", "https://hub.example?", "https://a.b#c", "x"]
)
def test_a_wrong_public_url_is_refused_with_the_expected_form(wrong: str) -> None:
    with pytest.raises(ConfigError, match="expected a URL such as"):
        public_url(Settings(public_url=wrong))


@pytest.mark.parametrize("wrong", ["https://hub.example/a b", "https://hub.example//hub", "https://hub.example/a/../b"])
def test_a_public_url_whose_path_is_no_prefix_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="public_url: expected a path such as /hub"):
        public_url(Settings(public_url=wrong))


def test_the_url_on_the_same_machine_has_the_prefix_of_the_public_url() -> None:
    assert hub_url(Settings(port=9123, public_url="https://hub.example/hub")) == "http://127.0.0.1:9123/hub"


def test_two_different_prefixes_are_refused() -> None:
    with pytest.raises(ConfigError, match="--path-prefix: it is '/a', and public_url ends with '/b'"):
        public_url(Settings(public_url="https://hub.example/b", path_prefix="/a"))
