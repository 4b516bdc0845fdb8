"""The introduction of an upstream is untrusted: what can be served of it, and what the hub remembers."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.kinds.mount.configuration import Mount
from patchbay.kinds.mount.snapshots import Snapshot
from patchbay.kinds.mount.standing_connection import LONGEST_URI, MOST_NEWS, MountContext, StandingConnection
from patchbay.stores.memory import MemoryStore

SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("method", "entry"),
    [
        ("tools/list", {"name": "a", "inputSchema": SCHEMA, "description": 5}),
        ("tools/list", {"name": "a", "inputSchema": SCHEMA, "title": ["x"]}),
        ("tools/list", {"name": "a", "inputSchema": SCHEMA, "annotations": {"title": 7}}),
        ("tools/list", {"name": "a", "inputSchema": SCHEMA, "annotations": [1]}),
        ("resources/list", {"uri": "a://b", "name": "n", "description": {"a": 1}}),
        ("resources/list", {"uri": "a://b", "name": "n", "mimeType": 7}),
        ("resources/templates/list", {"uriTemplate": "a://{b}", "name": "n", "title": 1}),
        ("prompts/list", {"name": "a", "arguments": [{"name": 5}]}),
        ("prompts/list", {"name": "a", "arguments": [{"name": "b", "description": [1]}]}),
    ],
)
def test_what_is_no_text_where_text_belongs_is_not_served(method: str, entry: dict[str, Any]) -> None:
    """One such entry would break every search of the hub, and the server's own pages."""
    found, problems = Snapshot("m", lists={method: [entry]}).descriptors()
    assert not any(found.values())
    assert [problem.reason[:10] for problem in problems] == ["not served"]


def test_only_news_of_lists_that_there_are_is_remembered() -> None:
    """Every queue has a limit, whatever an upstream sends, and however often."""
    keeper = StandingConnection(
        Mount("far", "https://far.example/mcp"), MountContext(MemoryStore(), {}, "hub", "1", lambda: None)
    )
    for number in range(MOST_NEWS + 10):
        keeper._heard(f"notifications/x{number}/list_changed", {})
        keeper._heard("notifications/resources/updated", {"uri": f"a://{number}"})
    keeper._heard("notifications/resources/updated", {"uri": "a" * (LONGEST_URI + 1)})
    keeper._heard("notifications/tools/list_changed", {})
    news = keeper._news.take(0)
    assert len(news) == MOST_NEWS + 1
    assert news[-1] == ("notifications/tools/list_changed", "")
