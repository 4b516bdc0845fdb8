"""The introduction of an upstream is untrusted: what can be served of it, and what the hub remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from patchbay.client.errors import McpFailure
from patchbay.stores.memory import MemoryStore
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.event_queue import MAX_EVENTS
from patchbay.upstreams.connections.standing_connection import MAX_URI_CHARACTERS, StandingConnection
from patchbay.upstreams.lists.snapshots import (
    LISTS,
    MAX_REMEMBERED_URIS,
    VIA,
    Snapshot,
    read_snapshot,
    with_first_sight,
)
from patchbay.upstreams.lists.unread_lists import UnreadLists
from patchbay.upstreams.liveness import Patience
from patchbay.upstreams.standing import MountContext
from tests.client.reaching import opened
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
        list_problems: ClassVar[dict[str, tuple[str, ...]]] = {}

        def has_list(self, method: str) -> bool:
            return True

        def iterate_pages(self, method: str, key: str, on_page: Any, meta: Any, seconds: float) -> list[Any]:
            asked.append(meta)
            return []

    upstream: Any = Upstream()
    read_snapshot(upstream, "m", UnreadLists(Patience()), via_id="hub/far")
    assert asked == [{VIA: ["hub/far"]}] * len(LISTS)


@pytest.mark.process
@pytest.mark.parametrize("behaviour", ["circle", "same", "number", "gone"])
def test_a_list_without_a_proper_end_is_served_as_far_as_it_was_read(behaviour: str) -> None:
    """33.6: the mount has the tools that were read, and its page says what is missing."""
    with opened(behaviour) as connection:
        snapshot = read_snapshot(connection, "m", UnreadLists(Patience()))
    found, problems = snapshot.descriptors()
    assert set(found["tool"]) >= {"echo-0" if behaviour == "gone" else "echo"}
    (problem,) = problems
    assert (problem.where, problem.reason[:14]) == ("tools/list", "not read after")


@pytest.mark.parametrize("before", [None, ["old", "older"]])
def test_a_list_that_fails_on_a_later_page_is_the_last_one_or_what_was_read(before: list[str] | None) -> None:
    """33.6: a mount that is up is not empty."""

    def fail(first: list[Any]) -> Iterator[Any]:
        yield from first
        raise McpFailure(-32603, "the cursor is not known")

    class Upstream:
        info: ClassVar[dict[str, Any]] = {"name": "far"}
        capabilities: ClassVar[dict[str, Any]] = {}
        list_problems: ClassVar[dict[str, tuple[str, ...]]] = {}
        instructions, revision, closed = None, MODERN, False

        def has_list(self, method: str) -> bool:
            return method == "tools/list"

        def iterate_pages(self, method: str, key: str, on_page: Any, meta: Any, seconds: float) -> Iterator[Any]:
            return fail([{"name": "first", "inputSchema": SCHEMA}])

    upstream: Any = Upstream()
    known = [{"name": name, "inputSchema": SCHEMA} for name in before or ()]
    earlier = Snapshot("m", lists={"tools/list": known}) if known else None
    snapshot = read_snapshot(upstream, "m", UnreadLists(Patience()), earlier)
    assert [one["name"] for one in snapshot.lists["tools/list"]] == (before or ["first"])
    where = "" if before else " after 1 entries"
    assert snapshot.left_out["tools/list"] == [f"not read{where}: the cursor is not known"]


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


def test_the_first_sight_of_a_uri_stays_when_it_is_not_listed_for_a_while() -> None:
    """It decides who came first where two servers list one URI."""

    def seen(uris: list[str], before: Snapshot | None, now: float) -> Snapshot:
        lists = {"resources/list": [{"uri": uri} for uri in uris]}
        return with_first_sight(Snapshot("mount", lists=lists), before, now)

    first = seen(["x://a"], None, 1.0)
    away = seen([], first, 2.0)
    back = seen(["x://a", "x://b"], away, 3.0)
    assert back.first_seen == {"x://a": 1.0, "x://b": 3.0}


def test_a_uri_of_an_earlier_version_of_the_hub_comes_before_all_others() -> None:
    before = Snapshot("mount", lists={"resources/list": [{"uri": "x://a"}]})
    assert with_first_sight(before, before, 5.0).first_seen == {"x://a": 0.0}


def test_the_number_of_remembered_uris_is_bounded() -> None:
    before = Snapshot("mount", first_seen={f"x://{number}": 1.0 for number in range(MAX_REMEMBERED_URIS)})
    fresh = Snapshot("mount", lists={"resources/list": [{"uri": "x://new"}]})
    assert len(with_first_sight(fresh, before, 2.0).first_seen) == MAX_REMEMBERED_URIS
