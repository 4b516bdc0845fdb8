"""The introduction of an upstream is untrusted: what can be served of it, and what the hub remembers."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.kinds.mount.configuration import Mount
from patchbay.kinds.mount.event_queue import MAX_EVENTS
from patchbay.kinds.mount.liveness import Patience
from patchbay.kinds.mount.snapshots import LISTS, VIA, Snapshot, read_snapshot
from patchbay.kinds.mount.standing_connection import MAX_URI_CHARACTERS, StandingConnection
from patchbay.kinds.mount.unread_lists import UnreadLists
from patchbay.kinds.standing import MountContext
from patchbay.stores.memory import MemoryStore
from tests.hubs import MODERN

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
def test_an_entry_with_a_field_of_a_wrong_type_is_not_served(method: str, entry: dict[str, Any]) -> None:
    """One such entry would break every search of the hub, and the server's own pages."""
    found, problems = Snapshot("m", lists={method: [entry]}).descriptors()
    assert not any(found.values())
    assert [problem.reason[:10] for problem in problems] == ["not served"]


def test_each_request_for_a_list_names_the_mount() -> None:
    """The hub behind it does not wait for its own mounts then, so that mounts that lead to each other are found."""
    asked: list[Any] = []

    class Upstream:
        info: dict[str, Any]
        capabilities: dict[str, Any]
        info, capabilities, instructions, revision = {"name": "far"}, {}, None, MODERN

        def has_list(self, method: str) -> bool:
            return True

        def iterate_pages(self, method: str, key: str, on_page: Any, meta: Any, seconds: float) -> list[Any]:
            asked.append(meta)
            return []

    upstream: Any = Upstream()
    read_snapshot(upstream, "m", UnreadLists(Patience()), via_id="hub/far")
    assert asked == [{VIA: ["hub/far"]}] * len(LISTS)


def test_only_notifications_of_known_lists_are_queued() -> None:
    """Every queue has a limit, whatever an upstream sends, and however often."""
    standing = StandingConnection(
        Mount("far", "https://far.example/mcp"), MountContext(MemoryStore(), {}, "hub", "1", lambda: None)
    )
    for number in range(MAX_EVENTS + 10):
        standing._on_notification(f"notifications/x{number}/list_changed", {})
        standing._on_notification("notifications/resources/updated", {"uri": f"a://{number}"})
    standing._on_notification("notifications/resources/updated", {"uri": "a" * (MAX_URI_CHARACTERS + 1)})
    standing._on_notification("notifications/tools/list_changed", {})
    news = standing._events.get_all(0)
    assert len(news) == MAX_EVENTS + 1
    assert news[-1] == ("notifications/tools/list_changed", "")
