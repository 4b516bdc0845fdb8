"""httpbin from PyPI, mounted in a running hub: every operation, and MCP Inspector's command line (issue 17.2).

`python -m tests.acceptance.apis` does it with three servers, each operation through Inspector.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.apis import HTTPBIN, Json, call_with_inspector, list_tools, mounted_server, try_operations


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


def describe(tool: Json) -> str:
    """The operation behind a tool."""
    place = tool["_meta"]["io.patchbay/operation"]
    return f"{place['method']} {place['path']}"
