"""Tasks of an administrator from the home page: by mouse with few clicks, by the keyboard alone, and without script.

A click is a press of a link, a button or a field. docs/pages.md has the figures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Protocol

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.keyboard import step_to
from tests.browser.tabs import BOUND, Tab
from tests.browser.team import NOTES, Team, team
from tests.client.reaching import SCRIPTED

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

ARCHIVE = '''

def archive(year: int) -> str:
    """Archive the notes of a year."""
    raise ValueError(f"the archive of {year} is locked")
'''


class Hand(Protocol):
    """How a person uses controls; `presses` counts links, buttons and fields."""

    presses: int

    def press(self, control: Locator) -> None: ...

    def write(self, field: Locator, text: str) -> None: ...


class Mouse:
    """A person with a mouse, who clicks and types."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.presses = 0

    def press(self, control: Locator) -> None:
        self.presses += 1
        control.click()

    def write(self, field: Locator, text: str) -> None:
        self.press(field)
        self._page.keyboard.press("Control+A")
        self._page.keyboard.insert_text(text)


class Keyboard:
    """A person without a mouse, who goes to each control with the Tab key and sees the focus there."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.presses = 0

    def press(self, control: Locator) -> None:
        self.presses += 1
        step_to(self._page, control)
        self._page.keyboard.press("Enter")

    def write(self, field: Locator, text: str) -> None:
        self.presses += 1
        step_to(self._page, field)
        self._page.keyboard.press("Control+A")
        self._page.keyboard.insert_text(text)


WAYS: dict[str, tuple[type[Mouse] | type[Keyboard], bool]] = {
    "mouse": (Mouse, True),
    "keyboard": (Keyboard, True),
    "mouse-no-script": (Mouse, False),
    "keyboard-no-script": (Keyboard, False),
}
"""How a person uses the pages: the hand, and whether scripts run."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """The hub of a team, whose server `notes` has a second version with a tool that failed."""
    with team(tmp_path_factory.mktemp("team")) as found:
        fields = {"action": "save", "source": NOTES + ARCHIVE, "why": "an archive"}
        headers = {"Origin": found.base, "Accept": "text/html", **found.hub.as_operator()}
        answer = httpx2.post(f"{found.base}/servers/notes/edit", data=fields, headers=headers, timeout=60)
        assert answer.status_code == 303, answer.text
        assert found.call("robot", "notes", "archive", year=2025)["result"]["isError"]
        refuse_all(found)
        yield found


def refuse_all(team: Team) -> None:
    """Refuse the calls that wait, so that the link *Access* leads to the grants."""
    with httpx2.Client(base_url=team.base, headers=team.hub.as_operator(), timeout=60) as client:
        for one in client.get("/approvals.json").json()["approvals"]:
            if one["waits"]:
                assert client.post("/approvals", data={"id": one["id"], "do": "refuse"}).status_code == 303


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tab(browser: Browser, shared: Team, way: str) -> Iterator[Tab]:
    """A tab of the operator on the home page."""
    size = {"width": 1280, "height": 900}
    tab = Tab(browser, shared.base, viewport=size, java_script_enabled=WAYS[way][1]).log_in(shared.hub)
    tab.open("/")
    yield tab
    tab.close()


@pytest.fixture
def hand(tab: Tab, way: str) -> Hand:
    return WAYS[way][0](tab.page)


def section(page: Page, name: str) -> Locator:
    """A link of the bar at the top."""
    return page.get_by_role("navigation", name="Main").get_by_role("link", name=name)


def test_a_waiting_call_is_approved_with_one_click(tab: Tab, hand: Hand, shared: Team, way: str) -> None:
    reason = f"a copy, {way}"
    shared.call("robot", "notes", "delete_note", id=11, why=reason)
    page = tab.open("/")
    call = page.locator("[data-call]").filter(has_text=reason)
    hand.press(call.get_by_role("button", name="Approve this call"))
    expect(call).to_have_count(0)
    assert "deleted 11" in json.dumps(shared.call("robot", "notes", "delete_note", id=11, why=reason))
    assert hand.presses <= 1


def test_a_colleague_gets_two_tools_with_seven_clicks(tab: Tab, hand: Hand, shared: Team, way: str) -> None:
    page, who = tab.page, f"{way}@example.org"
    hand.press(section(page, "Access"))
    hand.write(page.get_by_label("Person, key or group"), who)
    hand.press(page.get_by_role("button", name="Show", exact=True))
    expect(page.get_by_label("Person, key or group")).to_have_value(who)
    hand.press(page.get_by_role("button", name="notes", exact=True))
    for tool in ("search", "archive"):
        right = page.get_by_role("button", name=f"{who}: call {tool}", exact=True)
        hand.press(right)
        expect(right).to_have_attribute("aria-pressed", "true")
    hand.press(page.get_by_role("button", name="Save", exact=True))
    expect(page.get_by_text("Nothing changed yet.")).to_be_visible()
    document = httpx2.get(f"{shared.base}/access.json", headers=shared.hub.as_operator(), timeout=60).json()["source"]
    given = [row for row in json.loads(document)["grants"] if row["to"] == [who]]
    assert sorted(pattern for row in given for pattern in row["on"]) == ["notes.archive", "notes.search"]
    assert hand.presses <= 7


def test_the_reason_of_a_failed_call_is_found_with_four_clicks(tab: Tab, hand: Hand) -> None:
    page = tab.page
    hand.press(section(page, "Activity"))
    hand.press(page.get_by_role("link", name="last week"))
    expect(page).to_have_url(re.compile("since=7d"))
    hand.press(page.get_by_role("link", name=re.compile(r"^\d+ failed$")))
    expect(page).to_have_url(re.compile("outcome=failed"))
    row = page.get_by_role("row").filter(has_text="archive")
    hand.press(row.get_by_role("link").first)
    expect(page.get_by_role("region", name="What the code raised")).to_contain_text("is locked")
    assert hand.presses <= 4


def test_a_server_is_rolled_back_with_four_clicks(tab: Tab, hand: Hand, shared: Team) -> None:
    page = tab.page
    before = served(shared)
    hand.press(page.get_by_role("link", name="Notes", exact=True))
    hand.press(page.get_by_role("navigation", name="This server").get_by_role("link", name="Versions"))
    hand.press(page.get_by_role("link", name="Roll back").first)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Roll back to")
    hand.press(page.get_by_role("button", name="Roll back"))
    expect(page.get_by_role("status").filter(has_text="Rolled back.")).to_be_visible()
    assert served(shared) != before
    assert hand.presses <= 4


def served(team: Team) -> str:
    """The version of the server `notes`."""
    answer = httpx2.get(f"{team.base}/servers/notes.json", headers=team.hub.as_operator(), timeout=60)
    return str(answer.json()["server"]["version"])


def test_a_pasted_configuration_is_mounted_with_four_clicks(tab: Tab, hand: Hand, way: str) -> None:
    page = tab.page
    entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED)]}
    hand.press(page.get_by_role("link", name="Add", exact=True))
    hand.write(page.get_by_label("What the documentation"), json.dumps({"mcpServers": {f"piped-{way}": entry}}))
    hand.press(page.get_by_role("button", name="Show what it would run"))
    hand.press(page.get_by_role("button", name="Mount", exact=True))
    expect(page).to_have_url(f"{tab.base}/servers/piped-{way}")
    assert hand.presses <= 4


def test_a_setting_of_a_server_is_changed_with_five_clicks(tab: Tab, hand: Hand, way: str, shared: Team) -> None:
    page = tab.page
    hand.press(page.get_by_role("link", name="Notes", exact=True))
    hand.press(page.get_by_role("navigation", name="This server").get_by_role("link", name="Settings"))
    hand.write(page.get_by_label("Description", exact=True), f"Notes, {way}.")
    hand.press(page.get_by_role("button", name="Save", exact=True))
    expect(page.locator(".lead")).to_have_text(f"Notes, {way}.")
    assert hand.presses <= 5
