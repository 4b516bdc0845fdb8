"""The home page has the calls that wait for an approval, for the operator alone (issue 47 item 8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.team import new_key, set_grants
from tests.hubs import Hub, Stream
from tests.waiting import until
from tests.web.browsing import BROWSER
from tests.web.servers.test_editing import csrf

SAFE = '''"""A safe."""


def open_safe(reason: str) -> str:
    """Open the safe."""
    return f"opened: {reason}"
'''
CONFIGURATION = {"auto_discover": True, "isolation": "inline", "tools": {"open_safe": {"approve": True}}}
FILES = {"safe.py": SAFE, "safe.mcp.json": json.dumps(CONFIGURATION)}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, FILES).log_in()
    hub.catalogue.hub.gate.wait_seconds = 0.0
    yield hub
    hub.close()


def ask(hub: Hub, reason: str) -> str:
    """Call the tool as a client without a proof; return what the answer says."""
    client, hub.client = hub.client, hub.app.test_client()
    try:
        return hub.call("safe", "open_safe", {"reason": reason}, "2026-07-28").text
    finally:
        hub.client = client


def home(hub: Hub) -> str:
    return hub.client.get("/", headers=BROWSER).text


def waiting(hub: Hub) -> list[dict[str, Any]]:
    found = hub.client.get("/index.json").json
    assert isinstance(found, dict)
    return list(found["approvals"])


def test_a_waiting_call_needs_attention_and_has_its_button(hub: Hub) -> None:
    assert "wants to run" not in home(hub)
    assert "approv" in ask(hub, "the dentist")
    page = home(hub)
    attention = page.partition("Needs attention")[2].partition("</section>")[0]
    assert "wants to run" in attention
    assert "open_safe" in attention and "the dentist" in attention and "This machine" in attention
    assert 'value="approve"' in attention and 'value="refuse"' in attention
    assert [(one["tool"], one["state"]) for one in waiting(hub)] == [("open_safe", "waiting")]


@pytest.mark.parametrize(("do", "text"), [("approve", "opened: the dentist"), ("refuse", "approv")])
def test_the_button_decides_and_leads_back_to_the_home_page(hub: Hub, do: str, text: str) -> None:
    ask(hub, "the dentist")
    [one] = waiting(hub)
    fields = {"csrf": csrf(hub, "/"), "id": one["id"], "do": do, "from": "home"}
    answer = hub.client.post("/approvals", data=fields, headers=BROWSER)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert waiting(hub) == [] and "wants to run" not in home(hub)
    assert text in ask(hub, "the dentist")


def test_a_decision_on_the_page_of_approvals_stays_there(hub: Hub) -> None:
    ask(hub, "the dentist")
    [one] = waiting(hub)
    fields = {"csrf": csrf(hub, "/approvals"), "id": one["id"], "do": "refuse"}
    assert hub.client.post("/approvals", data=fields, headers=BROWSER).headers["Location"] == "/approvals"


def test_other_readers_see_no_waiting_calls(hub: Hub) -> None:
    ask(hub, "the dentist")
    stranger = hub.app.test_client()
    page = stranger.get("/", headers=BROWSER)
    assert page.status_code == 200
    assert "the dentist" not in page.text and "wants to run" not in page.text
    assert "data-live" not in page.text
    found = stranger.get("/index.json").json
    assert isinstance(found, dict) and found["approvals"] == []
    assert stranger.get("/activity/events?only=approvals").status_code == 401


def test_a_member_of_a_shared_hub_sees_no_waiting_calls_and_an_administrator_does(tmp_path: Path) -> None:
    hub = Hub(tmp_path, FILES, access="shared")
    hub.catalogue.hub.gate.wait_seconds = 0.0
    try:
        grants = [
            {"to": ["key:admin"], "may": ["operate"], "on": ["*"]},
            {"to": ["key:ann"], "may": ["see", "call"], "on": ["*"]},
        ]
        set_grants(hub, {"grants": grants})
        ann, admin = new_key(hub, "ann"), new_key(hub, "admin")
        hub.modern("safe", "tools/call", {"name": "open_safe", "arguments": {"reason": "x"}}, headers=ann)
        for headers, count in ((ann, 0), (admin, 1)):
            found = hub.client.get("/index.json", headers=headers).json
            assert isinstance(found, dict) and len(found["approvals"]) == count
        assert hub.client.get("/activity/events?only=approvals", headers=ann).status_code == 401
    finally:
        hub.close()


def test_the_page_is_told_when_a_call_begins_to_wait_and_when_it_is_decided(hub: Hub) -> None:
    response = hub.client.get("/activity/events?only=approvals", buffered=False)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    stream = Stream(response)
    ask(hub, "the dentist")
    assert any(b"event: approvals" in frame for frame in stream)
    [one] = waiting(hub)
    fields = {"csrf": csrf(hub, "/"), "id": one["id"], "do": "refuse"}
    assert hub.client.post("/approvals", data=fields, headers=BROWSER).status_code == 303
    assert any(b"event: approvals" in frame for frame in stream)
    stream.close()


def test_the_stream_of_approvals_ends_with_the_session_of_the_operator(hub: Hub) -> None:
    stream = Stream(hub.client.get("/activity/events?only=approvals", buffered=False))
    next(stream)
    assert hub.client.post("/logout", headers=BROWSER).status_code == 303
    assert not any(b"event" in frame for frame in stream), "it ends, and tells nothing more"


def test_another_value_of_only_is_refused(hub: Hub) -> None:
    assert hub.client.get("/activity/events?only=all").status_code == 400


def test_shipped_servers_are_folded_behind_the_own_ones(hub: Hub) -> None:
    page = home(hub)
    own, shipped = page.partition("Your servers")[2].split("Ships with the hub", 1)
    assert ">safe</a>" in own and "/servers/echo" not in own
    assert "/servers/echo" in shipped.partition("</details>")[0]
    assert '<details class="shipped">' in own


def test_a_hub_without_own_servers_shows_those_that_it_ships_with(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {})
    try:
        page = home(hub)
        assert "No servers of your own yet" in page and '<details class="shipped" open>' in page
        assert "Nothing needs attention" in page
    finally:
        hub.close()


def test_the_line_of_one_client_is_shown_and_the_others_are_folded(hub: Hub) -> None:
    shown, _, folded = home(hub).partition('id="connect"')[2].partition('<details class="more">')
    assert shown.count("data-copy") == 1 and folded.count("<h3>") > 15


def test_a_failed_schedule_needs_attention_of_the_operator_alone(tmp_path: Path) -> None:
    configuration = {"tools": {"ring": {"schedule": "0 7 29 2 *"}}}
    bell = 'def ring() -> str:\n    """Ring."""\n    raise ValueError("the rope is torn")\n'
    hub = Hub(tmp_path, {"bell.py": bell, "bell.mcp.json": json.dumps(configuration)}).log_in()
    try:
        assert "Nothing needs attention" in home(hub)
        fields = {"csrf": csrf(hub, "/schedules"), "server": "bell", "tool": "ring"}
        assert hub.client.post("/schedules", data=fields, headers=BROWSER).status_code == 303
        until(lambda: "The schedule of <code>ring</code>" in home(hub))
        page = home(hub)
        assert "the tool failed" in page and "the rope is torn" in page
        assert '<span class="count" title="1 wait for you">1</span>' in page
        assert "the rope is torn" not in hub.app.test_client().get("/", headers=BROWSER).text
    finally:
        hub.close()
