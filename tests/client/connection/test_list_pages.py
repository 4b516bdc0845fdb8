"""Which lists a server has, by the capabilities that it declares."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.client.connection.list_pages import EVENTS, find_events, is_declared


@pytest.mark.parametrize(
    "capabilities",
    [
        {"tools": {}, "events": {}},
        {"tools": {}, "extensions": {EVENTS: {}}},
        {"events": {}, "extensions": {EVENTS: {}}},
        {"events": {}, "extensions": None},
    ],
)
def test_events_are_declared_as_a_capability_or_as_an_extension(capabilities: dict[str, Any]) -> None:
    """Issue 50, item 15: those of servers written to OpenAI's guide vanished behind a mount."""
    assert is_declared("events/list", capabilities)


@pytest.mark.parametrize("capabilities", [{}, {"tools": {}}, {"events": True}, {"extensions": {"x/events": {}}}])
def test_a_server_that_declares_no_events_has_none(capabilities: dict[str, Any]) -> None:
    assert not is_declared("events/list", capabilities)


@pytest.mark.parametrize(
    "capabilities", [{"events": {"listChanged": True}}, {"events": {}, "extensions": {EVENTS: {"listChanged": True}}}]
)
def test_changes_of_the_event_types_are_announced_in_both_forms(capabilities: dict[str, Any]) -> None:
    assert (find_events(capabilities) or {}).get("listChanged") is True
