"""`/schedules`, and the schedules on the page of a server: what an administrator sees, and the button that runs one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs import Hub
from tests.waiting import until

FILES = {
    "desk.py": 'def greet(name: str) -> str:\n    """Greet."""\n    return f"hello {name} <b>"\n',
    "desk.mcp.json": '{"tools": {"greet": {"schedule": "0 7 29 2 *", "timezone": "Europe/Berlin",'
    ' "arguments": {"name": "Ada"}}}}',
}
HTML = {"Accept": "text/html"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    one = Hub(tmp_path, FILES).log_in()
    yield one
    one.close()


def press(hub: Hub, page: str) -> str:
    """Press the button of a page, and return the address of the next page."""
    shown = hub.client.get(page, headers=HTML).text
    form = dict(re.findall(r'name="(csrf|server|tool|next)" value="([^"]+)"', shown))
    answer = hub.client.post("/schedules", data=form)
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


@pytest.mark.parametrize("page", ["/schedules", "/servers/desk/settings"])
def test_a_page_shows_the_times_and_a_button_runs_the_tool_now(hub: Hub, page: str) -> None:
    """36.1"""
    shown = hub.client.get(page, headers=HTML).text
    assert "0 7 29 2 *" in shown and "Europe/Berlin" in shown and "It has not run yet." in shown
    assert press(hub, page) == page
    until(lambda: "hello Ada &lt;b&gt;" in hub.client.get(page, headers=HTML).text, "the result")
    assert "by operator" in hub.client.get(page, headers=HTML).text


def test_the_button_sends_a_browser_to_no_other_site(hub: Hub) -> None:
    shown = hub.client.get("/schedules", headers=HTML).text
    form = dict(re.findall(r'name="(csrf|server|tool)" value="([^"]+)"', shown)) | {"next": "https://example.com/"}
    assert hub.client.post("/schedules", data=form).headers["Location"] == "/"


def test_a_program_gets_the_run_as_json_and_a_sentence_for_a_tool_without_a_schedule(tmp_path: Path) -> None:
    hub = Hub(tmp_path, FILES).as_operator()
    try:
        json = {"Accept": "application/json", "Sec-Fetch-Site": "same-origin"}
        run = hub.client.post("/schedules", data={"server": "desk", "tool": "greet"}, headers=json).get_json()["run"]
        assert run["outcome"] == "running" and run["by"] == "operator"
        refused = hub.client.post("/schedules", data={"server": "desk", "tool": "none"}, headers=json)
        assert refused.status_code == 400 and "desk.none has no schedule" in refused.get_json()["error"]
        until(lambda: hub.client.get("/schedules.json").get_json()["schedules"][0]["runs"][0]["ended"], "the end")
    finally:
        hub.close()


def test_only_an_administrator_sees_and_runs_schedules(tmp_path: Path) -> None:
    hub = Hub(tmp_path, FILES)
    try:
        assert hub.client.get("/schedules.json").status_code == 401
        form = {"server": "desk", "tool": "greet"}
        assert hub.client.post("/schedules", data=form).status_code in (401, 403)
        assert "0 7 29 2" not in hub.client.get("/servers/desk/settings", headers=HTML).text
    finally:
        hub.close()
