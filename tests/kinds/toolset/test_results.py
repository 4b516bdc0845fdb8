"""Large results of a tool of a toolset: the beginning, and a link to the whole."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from tests.hubs import Hub
from tests.kinds.toolset.sets import INLINE, hub_with, listed, toolset

LONG = '''def story(lines: int) -> str:
    """Tell a story."""
    return "\\n".join(f"line {number}" for number in range(lines))


def table(rows: int) -> list[dict]:
    """Make a table."""
    return [{"row": number} for number in range(rows)]
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "long.py": LONG,
        "long.mcp.json": INLINE,
        "release.json": toolset(
            tools={
                "story": {"from": "long.story", "max_bytes": 200},
                "table": {"from": "long.table", "max_bytes": 200},
                "whole": "long.story",
            }
        ),
        "outer.json": toolset(tools={"story": {"from": "release.story", "max_bytes": 1000}}),
    }
    found = hub_with(tmp_path_factory.mktemp("results"), files).as_operator()
    yield found
    found.close()


def test_a_short_result_stays_whole(hub: Hub) -> None:
    assert hub.call("release", "story", {"lines": 3}).text == "line 0\nline 1\nline 2"


@pytest.mark.parametrize("server", ["release", "outer"])
def test_a_long_result_is_its_beginning_and_a_link_to_the_whole(hub: Hub, server: str) -> None:
    whole = hub.call("long", "story", {"lines": 400}).text
    result = hub.call(server, "story", {"lines": 400}).result
    text, link = result["content"]
    assert text["text"].startswith(whole[:200] + "\n[... ") and len(text["text"]) < 400
    assert link["size"] == len(whole)
    read = hub.modern(server, "resources/read", {"uri": link["uri"]}).result
    assert read["contents"][0]["text"] == whole
    assert hub.call("release", "whole", {"lines": 400}).text == whole


def test_a_long_structured_result_is_a_link_too(hub: Hub) -> None:
    assert "outputSchema" in listed(hub, "long")["table"] and "outputSchema" not in listed(hub)["table"]
    result = hub.call("release", "table", {"rows": 100}).result
    assert "structuredContent" not in result and len(orjson.dumps(result)) < 1000
    assert any(one["type"] == "resource_link" for one in result["content"])


def test_plain_http_gives_the_whole_result(hub: Hub) -> None:
    assert "line 399" in hub.client.post("/release/story", json={"lines": 400}).text
