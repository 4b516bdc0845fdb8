"""Texts that take long: whoever sends them to a shipped server or a page is answered with a sentence.

Source: issue 11, item 6.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.attacks.posting import post
from tests.checkout import ROOT
from tests.serving.running import BOUND, Hub, running

pytestmark = pytest.mark.process

SHIPPED = ROOT / "reference_templates" / "mcps" / "configs"
INLINE = {"health", "jane"}
"""What runs inside the hub: `health` takes no argument, and `jane` is the library of the hub itself, whose index only
one process may write."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("burned")) as hub:
        yield hub
        assert hub.end() == 0


def convert(hub: Hub, text: str) -> dict[str, Any]:
    params = {"name": "convert", "arguments": {"markdown": text}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer: dict[str, Any] = post(hub, "/mcp/markdown", message).last
    return answer


def test_no_shipped_server_that_takes_what_strangers_send_runs_inside_the_hub() -> None:
    inline = {
        path.stem for path in SHIPPED.glob("*.json") if orjson.loads(path.read_bytes()).get("isolation") == "inline"
    }
    assert inline == INLINE


def test_it_nests_elements_without_end(hub: Hub) -> None:
    """The time of the cleaner grows with the square of the nesting: 40,000 elements took a core for seconds."""
    said = convert(hub, "<div>" * 40_000)
    assert "nests HTML deeper than 500 elements" in str(said)
    assert "<h1>" in str(convert(hub, "# Heading"))


def test_it_sends_more_than_anyone_reads(hub: Hub) -> None:
    assert convert(hub, "x" * 200_001)["error"]["code"] == -32602
    assert not convert(hub, "x" * 200_000)["result"].get("isError")


def test_it_renders_tables_without_end(hub: Hub) -> None:
    """The answer is a page of nodes or a sentence; the hub answers others either way."""
    with_tables = b"|a|\n|-|\n" * 12_000
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        connection.request("POST", "/render/markdown", with_tables)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    assert answer.status in (200, 413)
    assert answer.status == 200 or b"takes longer than 2 seconds to render" in body
    assert hub.get("/healthz")[0] == 200
