"""A member hides in the records of calls: names with control, invisible and direction-changing characters.

Sources: issue 16; Unicode Technical Report 36, sections 2 and 3 (visual security).
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.views.hidden_characters import find_hidden_character
from tests.access.team import new_key, team_hub
from tests.hubs import Hub

NAME = "se\u202ehcra\x1b]0;title\x07\u009b31m\u200b\x00"
CLIENT = {"io.modelcontextprotocol/clientInfo": {"name": "cli\u202eent\x1b[2J", "version": "1"}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("records"), store="sqlite", audit="on")
    # The header `Mcp-Name` cannot carry these characters; a request of an older revision has no such header.
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": NAME}}
    headers = new_key(hub, "ann")
    assert hub.send("notes", message, headers | {"MCP-Protocol-Version": "2025-03-26"}).status == 200
    hub.modern("notes", "tools/call", {"name": "search", "arguments": {}}, meta=CLIENT, headers=headers)
    hub.activity.flush()
    yield hub
    hub.close()


def test_the_pages_of_calls_show_hidden_characters(hub: Hub) -> None:
    operator = {"Authorization": f"Bearer {hub.token}", "Accept": "text/html"}
    page = hub.client.get("/activity", headers=operator).text
    assert "se[U+202E]hcra" in page and "cli[U+202E]ent" in page
    assert find_hidden_character(page) is None
    for id in set(re.findall(r"/activity/(\d+-\d+)", page)):
        shown = hub.client.get(f"/activity/{id}", headers=operator).text
        assert "U+202E" in shown
        assert find_hidden_character(shown) is None


def test_an_exported_chain_does_not_control_the_terminal(hub: Hub) -> None:
    command = [sys.executable, "-m", "patchbay", "audit", "export", "--data", str(hub.settings.data)]
    exported = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert "\u202e" in exported and "\u009b" in exported, "a file has the exact bytes"
    reader, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as process:
        os.close(terminal)
        shown = read_terminal(reader)
    assert process.returncode == 0
    assert "\\u202e" in shown and "\\u009b" in shown
    assert not re.search("[\x1b\x80-\x9f\u202e]", shown)


def read_terminal(reader: int) -> str:
    """Return everything that a program writes to a terminal."""
    found = b""
    with os.fdopen(reader, "rb", buffering=0) as file:
        try:
            while piece := file.read(65536):
                found += piece
        except OSError:  # the program closed its side
            pass
    return found.decode()


def test_the_chain_with_such_names_is_intact(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "chain.ndjson"
    base = [sys.executable, "-m", "patchbay", "audit"]
    with file.open("wb") as out:
        subprocess.run(
            [*base, "export", "--data", str(hub.settings.data)], stdout=out, check=True, capture_output=False
        )
    assert b"are intact" in subprocess.run([*base, "verify", str(file)], stdout=subprocess.PIPE, check=True).stdout
