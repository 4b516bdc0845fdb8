"""httpbin from PyPI, mounted in a running hub: every operation, and MCP Inspector's command line (issue 17.2).

`python -m tests.acceptance.apis` does it with three servers, each operation through Inspector.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.apis import (
    HTTPBIN,
    REFUSED_CURSOR,
    Json,
    call_with_inspector,
    list_tools,
    mounted_server,
    try_operations,
)
from tests.kinds.openapi.recording_api import Answering, Reply, recording_api


@pytest.mark.process
@pytest.mark.node
def test_every_operation_of_a_real_api_server_is_callable(tmp_path: Path) -> None:
    with mounted_server(HTTPBIN, tmp_path) as mounted:
        outcome = try_operations(mounted, direct=True)
        assert (outcome.count, outcome.failures, outcome.problems) == (len(list_tools(mounted.endpoint)), {}, [])
        assert outcome.count > 70
        headers = next(one["name"] for one in list_tools(mounted.endpoint) if describe(one) == "GET /headers")
        result = call_with_inspector(mounted.endpoint, tmp_path)(headers, {})
        assert '"Accept-Encoding": "identity"' in result["content"][0]["text"], result


def answer_pages(*answers: Json) -> Answering:
    """Return what answers the requests for lists one after the other."""
    left = iter(answers)
    return lambda seen: Reply({"jsonrpc": "2.0", "id": 1, **next(left)})


def test_a_listing_begins_anew_when_the_list_changes_between_two_pages() -> None:
    first = {"result": {"tools": [{"name": "a"}], "nextCursor": "1"}}
    refused = {"error": {"code": -32602, "message": f"{REFUSED_CURSOR}; begin again without one"}}
    changed = {"result": {"tools": [{"name": "b"}]}}
    with recording_api({}, answer_pages(first, refused, changed)) as server:
        assert list_tools(server.url) == [{"name": "b"}]


def test_a_listing_that_fails_shows_the_error() -> None:
    error = {"error": {"code": -32603, "message": "the store failed: disk is full"}}
    with recording_api({}, answer_pages(error)) as server, pytest.raises(AssertionError, match="disk is full"):
        list_tools(server.url)


def describe(tool: Json) -> str:
    """The operation behind a tool."""
    place = tool["_meta"]["io.patchbay/operation"]
    return f"{place['method']} {place['path']}"
