"""The same tests for every independent client: it lists, calls and reads what the hub serves."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.peers import MODERN, PEERS, Peer, PythonSdk, typescript_sdk
from tests.interaction.programs import Hub

pytestmark = [pytest.mark.process, pytest.mark.node]


@dataclass(frozen=True)
class Use:
    """What a client does with one server, and what has to come of it; texts are regular expressions."""

    server: str
    tool: str
    arguments: dict[str, Any]
    says: str
    uri: str
    reads: str
    prompts: list[str] = field(default_factory=list)


USES = [
    Use("echo", "echo", {"message": "Grüße"}, r"Grüße\n?", "echo://last", r"Grüße\n?"),
    Use(
        "markdown",
        "convert",
        {"markdown": "# Title\n\n<script>alert()</script>"},
        r"(?s)<h1>Title</h1>(?!.*<script)",
        "server://markdown/headings?markdown=%23%20Title",
        r'"text":\s*"Title"',
        ["draft"],
    ),
    Use(
        "jq",
        "query",
        {"filter": ".a[]", "input": {"a": [1, 2]}},
        r"\[\s*1,\s*2\s*\]",
        "jq://cheat-sheet",
        "# jq filters",
    ),
    Use("date", "date", {"args": "+%Y"}, r"20\d\d\n?", "server://date/date?args=%2B%25Y", r"20\d\d\n?"),
    Use("hello", "hello", {"name": "Ada"}, r"Hello, Ada!", "server://hello", r'"name":\s*"hello"'),
]


BY_COMMANDS = {"markdown", "jq"}
"""The servers that a client uses whose every request is a program of its own: one with a prompt and a template of a
resource, one with an object as an argument. The other clients use all.
"""

PAIRS = [
    pytest.param(name, use, id=f"{name}-{use.server}")
    for name in PEERS
    for use in USES
    if name != "inspector" or use.server in BY_COMMANDS
]


@pytest.mark.parametrize(("peer", "use"), PAIRS, indirect=["peer"])
def test_a_client_lists_calls_and_reads(hub: Hub, peer: Peer, use: Use) -> None:
    server = hub.endpoint(use.server)
    assert use.tool in peer.tools(server)
    assert re.match(use.says, peer.call(server, use.tool, use.arguments))
    assert re.search(use.reads, peer.read(server, use.uri))
    assert peer.prompts(server) == use.prompts


def test_a_tool_that_fails_is_a_failure_for_every_client(hub: Hub, peer: Peer) -> None:
    with pytest.raises(Exception, match=r"do not fit|isError") as caught:
        peer.call(hub.endpoint("hello"), "add", {"a": 1})
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_python_sdk_uses_the_configured_revision(hub: Hub, mode: str) -> None:
    expected = "2025-11-25" if mode == "legacy" else mode
    assert PythonSdk(mode).revision(hub.endpoint("echo")) == expected


@pytest.mark.parametrize("mode", ["legacy", MODERN, "sdk-1"])
def test_the_typescript_sdks_use_the_configured_revision(hub: Hub, mode: str, tmp_path: Path) -> None:
    with typescript_sdk(mode, tmp_path) as peer:
        assert peer.revision(hub.endpoint("echo")) == (MODERN if mode == MODERN else "2025-11-25")


def test_clients_that_look_for_themselves_find_the_newest_revision(hub: Hub) -> None:
    assert PythonSdk("auto").revision(hub.endpoint("echo")) == MODERN
