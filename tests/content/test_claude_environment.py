"""What of the hub's environment the configuration of claudecode hands on to `claude`."""

from __future__ import annotations

from patchbay.config import resolved
from tests.content.test_claudecode import CONFIG


def test_the_address_of_the_api_its_token_and_proxies_are_handed_on() -> None:
    """Issue 12 part 7."""
    handed = {"ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}
    mine = {name: f"value of {name}" for name in handed}
    found = resolved(CONFIG["environment"], "claudecode", mine)
    assert {name: found.get(name) for name in handed} == mine
    assert not handed & resolved(CONFIG["environment"], "claudecode", {}).keys()
