"""Pages of lists over MCP: a cursor belongs to the list that gave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.messages.versions import REVISIONS
from tests.hubs import MODERN, Hub

TWINS = "def first() -> str:\n    return '1'\n\n\ndef second() -> str:\n    return '2'\n"
CONFIG = {
    "auto_discover": True,
    "prompts": {
        name: {"messages": [{"role": "user", "content": {"type": "text", "text": name}}]}
        for name in ("first", "second")
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"twins.py": TWINS, "twins.mcp.json": orjson.dumps(CONFIG).decode()}
    one = Hub(tmp_path_factory.mktemp("lists"), files, page_size=1)
    yield one
    one.close()


def send_request(hub: Hub, version: str, method: str, params: dict[str, Any]) -> Any:
    """A request of one revision, without a session."""
    if version == MODERN:
        return hub.modern("twins", method, params)
    return hub.legacy("twins", method, params, version=version)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize(("own", "other"), [("tools", "prompts"), ("prompts", "tools")])
def test_a_cursor_of_another_list_is_refused_though_both_have_the_name(
    hub: Hub, version: str, own: str, other: str
) -> None:
    first = send_request(hub, version, f"{own}/list", {}).result
    cursor = {"cursor": first["nextCursor"]}
    assert [one["name"] for one in send_request(hub, version, f"{own}/list", cursor).result[own]] == ["second"]
    error = send_request(hub, version, f"{other}/list", cursor).error
    assert error["code"] == -32602
    assert "begin again without one" in error["message"]


def test_a_list_is_rendered_once_for_each_version_and_revision(hub: Hub) -> None:
    """DESIGN 10; tests/access/test_control.py has the same for callers with limited rights."""
    lists, server, revision = (
        hub.app.parts.dispatcher.services.lists,
        hub.catalogue.find("twins"),
        REVISIONS[MODERN],
    )
    first = lists.page(server, "tools", revision, {})
    assert lists.page(server, "tools", revision, {}).data is first.data
