"""The navigation has the sections that a reader may use, the pages of a section, and the numbers of what waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from patchbay.web.site.navigation import Reader, Waiting, describe_navigation
from tests.access.team import new_key, set_grants
from tests.hubs import Hub
from tests.web.browsing import BROWSER
from tests.web.pages.test_home import FILES, ask

OPERATOR = Reader(has_operator_pages=True, sees_configuration=True, may_inspect=True, has_people=True)
MEMBER = Reader(has_operator_pages=False, sees_configuration=False, may_inspect=False, has_people=True)


class _Bars(HTMLParser):
    """The links of each labelled navigation of a page: address to text. `current` has the addresses of current ones."""

    def __init__(self) -> None:
        super().__init__()
        self.bars: dict[str, dict[str, str]] = {}
        self.current: list[str] = []
        self._bar = self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "nav":
            self._bar = found.get("aria-label") or ""
            self.bars[self._bar] = {}
        elif tag == "a" and self._bar:
            self._link = found.get("href") or ""
            self.bars[self._bar][self._link] = ""
            if found.get("aria-current") == "page":
                self.current.append(self._link)

    def handle_data(self, data: str) -> None:
        if self._bar and self._link:
            self.bars[self._bar][self._link] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._bar = ""
        elif tag == "a":
            self._link = ""


def bars(client: FlaskClient, path: str, headers: dict[str, str] | None = None) -> _Bars:
    answer = client.get(path, headers={**BROWSER, **(headers or {})})
    assert answer.status_code == 200, (path, answer.status_code)
    found = _Bars()
    found.feed(answer.text)
    return found


def texts(client: FlaskClient, path: str = "/", headers: dict[str, str] | None = None) -> list[str]:
    """The links of the main navigation as a person reads them."""
    return [re.sub(r"\s+", " ", text).strip() for text in bars(client, path, headers).bars["Main"].values()]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, {**FILES, "tides.py": "def x(:\n"}).log_in()
    hub.catalogue.hub.gate.wait_seconds = 0.0
    yield hub
    hub.close()


def test_the_operator_has_six_sections() -> None:
    found = describe_navigation("home", OPERATOR, Waiting())
    assert [each["label"] for each in found["sections"]] == ["Home", "Servers", "Activity", "Access", "Rooms", "Hub"]
    assert found["pages"] == [] and found["section"] == ""


def test_a_reader_gets_no_link_to_a_page_that_refuses_this_reader() -> None:
    found = describe_navigation("home", MEMBER, Waiting())
    assert [each["label"] for each in found["sections"]] == ["Home", "Servers", "Activity", "Rooms"]


@pytest.mark.parametrize(
    ("here", "section", "labels"),
    [
        ("approvals", "Access", ["Grants", "People", "Keys", "Approvals", "Limits", "Audit"]),
        (
            "nodes",
            "Hub",
            [
                "Settings",
                "Variables",
                "Secrets",
                "History",
                "Pins",
                "Schedules",
                "Webhooks",
                "Nodes",
                "Registry",
                "Inspect",
            ],
        ),
    ],
)
def test_a_page_of_a_section_shows_the_other_pages_of_it(here: str, section: str, labels: list[str]) -> None:
    found = describe_navigation(here, OPERATOR, Waiting())
    assert found["section"] == section and [each["label"] for each in found["pages"]] == labels
    assert [each["label"] for each in found["sections"] if each["is_here"]] == [section]
    [current] = [each["path"] for each in found["pages"] if each["is_here"]]
    assert current == f"/{here}"


def test_access_leads_to_the_calls_that_wait() -> None:
    path = {each["label"]: each["path"] for each in describe_navigation("home", OPERATOR, Waiting())["sections"]}
    assert path["Access"] == "/access"
    found = describe_navigation("home", OPERATOR, Waiting(home=3, approvals=2))["sections"]
    assert [(each["path"], each["waits"]) for each in found if each["waits"]] == [("/", 3), ("/approvals", 2)]


def test_the_numbers_say_what_waits(hub: Hub) -> None:
    assert texts(hub.client) == ["Home 1", "Servers", "Activity", "Access", "Rooms", "Hub"]
    ask(hub, "the dentist")
    assert texts(hub.client, "/servers") == ["Home 2", "Servers", "Activity", "Access 1", "Rooms", "Hub"]


def test_a_reader_who_is_not_the_operator_is_told_nothing_of_waiting_calls(hub: Hub) -> None:
    ask(hub, "the dentist")
    assert texts(hub.app.test_client()) == ["Home 1", "Servers", "Activity", "Rooms", "Hub"]


def test_a_member_of_a_shared_hub_is_told_nothing_of_servers_that_this_member_cannot_see(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {**FILES, "tides.py": "def x(:\n"}, access="shared")
    try:
        set_grants(hub, {"grants": [{"to": ["key:ann"], "may": ["see", "call"], "on": ["safe"]}]})
        assert texts(hub.client, "/", new_key(hub, "ann")) == ["Home", "Servers", "Activity", "Rooms"]
    finally:
        hub.close()


def test_each_link_of_the_navigation_leads_to_a_page_that_marks_it(hub: Hub) -> None:
    for path in list(bars(hub.client, "/").bars["Main"]):
        found = bars(hub.client, path)
        assert path in found.current, path
        [_, *sections] = [label for label in found.bars if label not in ("Contents", "On this page")]
        for page in [page for label in sections for page in found.bars[label]]:
            assert page in bars(hub.client, page).current, page


def test_add_is_there_for_those_who_can_add(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"tides.json": json.dumps({"kind": "static", "prompts": {}})}, access="open")
    try:
        assert 'href="/servers/new">Add<' not in hub.client.get("/activity", headers=BROWSER).text
        assert 'href="/servers/new">Add<' in hub.log_in().client.get("/activity", headers=BROWSER).text
    finally:
        hub.close()
