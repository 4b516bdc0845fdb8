"""Texts that take long to process: a shipped server or a page answers with a sentence."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.documents.search import MAX_SEARCH_SECONDS
from tests.checkout import ROOT
from tests.serving.running import Hub, running
from tests.waiting import BOUND

pytestmark = pytest.mark.process

SHIPPED = ROOT / "reference_templates" / "mcps" / "configs"
INLINE = {"health", "jane"}
"""The servers inside the hub: `health` takes no argument, and `jane` is the library of the hub itself, whose index only
one process may write.
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("burned")) as hub:
        yield hub
        assert hub.end() == 0


def call(hub: Hub, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the answer to a call, a result or an error."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        kinds = {"Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", f"/mcp/{server}", json.dumps(message), kinds)
        found: dict[str, Any] = json.load(connection.getresponse())
    finally:
        connection.close()
    return found


def convert(hub: Hub, text: str) -> dict[str, Any]:
    return call(hub, "markdown", "convert", markdown=text)


def fill_library(hub: Hub) -> None:
    """Put documents with many rare words into the library, once."""
    for number in range(0, len(WORDS), 400):
        name = {"type": "spec", "project": "p", "path": f"{number}.md"}
        text = " ".join(WORDS[number : number + 400])
        answered = call(hub, "jane", "create_document", **name, title=str(number), content=text)
        if "exists" in str(answered) or "already" in str(answered):
            return
        assert not answered["result"].get("isError"), answered


def processor_seconds(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_no_shipped_server_with_untrusted_input_runs_inside_the_hub() -> None:
    inline = {
        path.stem for path in SHIPPED.glob("*.json") if orjson.loads(path.read_bytes()).get("isolation") == "inline"
    }
    assert inline == INLINE


def test_it_nests_elements_without_end(hub: Hub) -> None:
    """The cleaner's time grows with the square of the nesting: 40,000 elements took a core for seconds."""
    answered = convert(hub, "<div>" * 40_000)
    assert "nests HTML deeper than 500 elements" in str(answered)
    assert "<h1>" in str(convert(hub, "# Heading"))


def test_it_sends_a_text_beyond_the_limit(hub: Hub) -> None:
    assert convert(hub, "x" * 200_001)["error"]["code"] == -32602
    assert not convert(hub, "x" * 200_000)["result"].get("isError")


WORDS = [f"{letters}zqvx{number:04d}" for number, letters in enumerate(("pre", "int", "con", "dis") * 2_000)]
"""Words of the library; words that differ from all of them in a few letters are the most expensive to search for."""

QUERIES = {
    "many words that are spelled wrongly": " ".join(f"{word[:5]}xx{word[5:]}" for word in WORDS[:300]),
    "many beginnings": " ".join(f"{word[:2]}*" for word in WORDS[:8]) + " z*",
    "one phrase": '"' + " ".join(WORDS[:380]) + '"',
    "one long word": "a" * 4_000,
    "one word of many parts": "a_" * 2_000,
    "quotes": '"a*' * 1_300,
    "emoji": "\U0001f600" * 4_000,
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_it_searches_the_library_for_expensive_words(hub: Hub, query: str) -> None:
    """JANE-8: the search ends with an answer or a sentence, and costs less processor time than its limit."""
    fill_library(hub)
    workers = hub.workers()
    before = sum(map(processor_seconds, workers))
    answered = call(hub, "jane", "search", query=query[:4_000], includeContent=True, limit=1000)
    text = answered["result"]["content"][0]["text"]
    assert " found, " in text or "No document was found." in text or "was ended: use fewer words" in text, text[:500]
    assert sum(map(processor_seconds, workers)) - before < 2 * MAX_SEARCH_SECONDS
    assert hub.get("/healthz")[0] == 200


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("search", {"query": "x" * 4_001}, "query"),
        ("search", {"query": "x", "offset": 10**30}, "offset"),
        ("search", {"query": "x", "offset": 1_000_001}, "offset"),
        ("search", {"query": "x", "limit": 1_001}, "limit"),
        ("search", {"query": "x", "project": "p" * 201}, "project"),
        ("get_spec", {"project": "p", "path": "a/" * 501}, "path"),
        ("create_document", {"type": "spec", "path": "a.md", "title": "t" * 1_001, "content": ""}, "title"),
        ("create_document", {"type": "spec", "path": "a.md", "title": "t", "content": "", "tags": ["t"] * 101}, "tags"),
    ],
)
def test_it_sends_more_than_the_library_takes(hub: Hub, tool: str, arguments: dict[str, Any], place: str) -> None:
    answered = call(hub, "jane", tool, **arguments)
    assert answered["error"]["code"] in (-32602, -32700), answered
    assert place in str(answered) or answered["error"]["code"] == -32700


def test_it_renders_tables_without_end(hub: Hub) -> None:
    """The answer is a page of nodes or a sentence; the hub answers other callers meanwhile."""
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
