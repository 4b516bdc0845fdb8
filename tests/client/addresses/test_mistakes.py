"""What a text that is not an address was probably meant to be; each suggestion is an address."""

from __future__ import annotations

import re

import pytest

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.mistakes import EXAMPLES, describe_mistake
from patchbay.client.addresses.targets import AddressError

MEANT = {
    "npx -y @scope/server /tmp": "mcp+npx://@scope/server?launch.arg=/tmp",
    "npx server": "mcp+npx://server",
    "uvx mcp-server-time --utc": "mcp+uvx://mcp-server-time?launch.arg=--utc",
    "npx --package=a b": "mcp+stdio:npx --package=a b",
    "python server.py": "mcp+stdio:python server.py",
    "docker run -i image": "mcp+stdio:docker run -i image",
    "./server.py": "mcp+python://./server.py",
    "tools/server.mjs": "mcp+node://tools/server.mjs",
    "localhost:8000/mcp/git": "http://localhost:8000/mcp/git",
    "127.0.0.1:8000/mcp": "http://127.0.0.1:8000/mcp",
    "example.org/mcp": "https://example.org/mcp",
    "/git": "/mcp/git",
    "mcp/git": "/mcp/git",
    "/git/log": "/mcp/git/log",
    "mcp/git/log": "/mcp/git/log",
    "servers/git": "/mcp/git",
    "git/log": "/mcp/git/log",
    "git": "mcp+npx://git",
}


@pytest.mark.parametrize("text", MEANT)
def test_the_error_says_what_to_write(text: str) -> None:
    """Issue 47 item 13: the address that was meant, not a list of schemes."""
    with pytest.raises(AddressError) as problem:
        parse_address(text)
    assert re.search(r"write ([^;]+?)(,? for |$)", problem.value.message), problem.value.message
    assert f"write {MEANT[text]}" in problem.value.message
    parse_address(MEANT[text])


@pytest.mark.parametrize("text", ["", "ftp://x", "a\nb", "git's", "@", "häuser"])
def test_for_any_other_text_the_error_names_the_usual_forms(text: str) -> None:
    assert describe_mistake(text).endswith(EXAMPLES)


def test_the_arguments_that_a_command_added_are_not_shown() -> None:
    """`call /git log` is the address `/git?tool=log` inside."""
    assert describe_mistake("/git?tool=log").startswith("not an address: '/git'; write /mcp/git")
