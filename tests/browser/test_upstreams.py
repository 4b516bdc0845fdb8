"""The pages below /upstreams in a real browser: a person connects an own account at a mounted server.

The server and the authorization server are programs of their own; strangers write their addresses, scopes and errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from patchbay.views.hidden_characters import find_hidden_character
from tests.access.upstreams.guarded import Guarded, running_guarded
from tests.browser.keyboard import focus, press, step_to
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.browser.test_hostile_hub import ALL, DESK, PHONE, check_page
from tests.person_at_browser import PersonAtBrowser
from tests.serving.running import Hub, running
from tests.signing_in import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.node]
expect.set_options(timeout=BOUND)

HOSTILE_PATH = quote('"><img src=x onerror=alert(1)></td></table>\u202e' + "w" * 200, safe="")


OTHER_WAYS: dict[str, dict[str, Any]] = {
    "keyed": {"way": "key"},
    "many": {
        "way": "key",
        "fields": [
            {"name": "login", "title": "Your account there", "header": "Authorization", "format": "basic"},
            {"name": "tenant", "title": "Tenant", "header": "X-Tenant"},
            {"name": "region", "query": "region"},
        ],
    },
    "passed": {"way": "forward", "forward": ["X-Tenant", "X-Team"]},
}
"""Further ways in which servers get a credential of each caller, by mount."""


@dataclass
class Office:
    """A shared hub with mounts that want accounts."""

    hub: Hub
    guarded: Guarded

    @property
    def base(self) -> str:
        return f"http://localhost:{self.hub.port}"

    def open_as(self, name: str, browser: Browser, **options: Any) -> Tab:
        """A tab in which a person has signed in; web fonts of the authorization server are not loaded."""
        PersonAtBrowser(self.hub, name, base=self.base).close()
        tab = Tab(browser, self.base, **options)
        tab.page.route(re.compile("^https://"), lambda route: route.fulfill(content_type="text/css", body=""))
        page = tab.open("/login?next=/upstreams")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page).to_have_url(f"{self.base}/upstreams")
        return tab


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    (folder / "guarded").mkdir()
    (folder / "servers").mkdir()
    with running_guarded(folder / "guarded") as guarded:
        (folder / "servers" / "far.json").write_text(guarded.mount())
        (folder / "servers" / "strange.json").write_text(guarded.mount().replace("/mcp?", f"/{HOSTILE_PATH}?"))
        for name, fields in OTHER_WAYS.items():
            mount = {"kind": "upstream", "address": guarded.url, "account": "caller", **fields}
            (folder / "servers" / f"{name}.json").write_text(json.dumps(mount))
        with running(folder, "--access", "shared") as hub:
            office = Office(hub, guarded)
            form = {"do": "make", "name": "robot", "expires": "90d", "grants": ""}
            headers = hub.as_operator()
            httpx2.post(f"{office.base}/access/keys", data=form, headers=headers, timeout=BOUND).raise_for_status()
            yield office
            assert hub.end() == 0


def fits(page: Page) -> bool:
    """Tell whether a page cannot be moved sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def connect(tab: Tab, server: str) -> None:
    """Connect an account with the mouse, from the page of the server to the answer of the authorization server."""
    page = tab.open(f"/upstreams/{server}")
    page.get_by_role("button", name="Connect an account").click()
    page.get_by_role("link", name="Continue to").click()
    page.locator("input[name=login]").fill("ann-there")
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.locator("button[type=submit]").click()
    expect(page.get_by_text("The account is connected")).to_be_visible()


def test_a_person_connects_and_disconnects_an_account_with_the_keyboard_alone(browser: Browser, office: Office) -> None:
    """Issue 16, item 6; issue 17: each control is reached with the Tab key and shows its focus."""
    tab = office.open_as("keys@example.org", browser, viewport=DESK)
    page = tab.page
    press(page, "Connect far", "link")
    press(page, "Connect an account")
    step_to(page, page.get_by_role("link", name="Continue to"))
    page.keyboard.press("Enter")
    focus(page, page.locator("input[name=login]"))
    page.keyboard.type("keys-there")
    focus(page, page.locator("input[name=password]"))
    page.keyboard.type("any")
    page.keyboard.press("Enter")
    focus(page, page.locator("button[type=submit]"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("The account is connected")).to_be_visible()
    page.goto(f"{office.base}/upstreams")
    press(page, "Disconnect far")
    expect(page.get_by_role("link", name="Connect far")).to_be_visible()
    tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_accounts_at_servers_has_a_violation(browser: Browser, office: Office, size: str) -> None:
    """WCAG 2.2 AA: not connected, on the way, refused, connected; for a key; nothing is wider than a phone."""
    options = {"viewport": SIZES[size], "bypass_csp": True}
    tab = office.open_as(f"axe.{size}", browser, **options)
    for path in ("/upstreams", "/upstreams/far", "/upstreams/strange"):
        tab.open(path)
        assert violations(tab) == [] and fits(tab.page), path
    page = tab.open("/upstreams/far")
    page.get_by_role("button", name="Connect an account").click()
    page.get_by_role("link", name="Continue to").wait_for()
    assert violations(tab) == [] and fits(page)
    connect(tab, "far")
    assert violations(tab) == [] and fits(page)
    for path in ("/upstreams", "/upstreams/far"):
        tab.open(path)
        assert violations(tab) == [] and fits(tab.page), path
    for path in ("/upstreams/keyed", "/upstreams/many"):
        tab.open(path)
        assert violations(tab) == [] and fits(tab.page), path
    page = tab.open("/upstreams/keyed")
    fields, button = (page.locator(each).bounding_box() for each in ("main fieldset", "main .actions button"))
    assert fields and button and button["y"] > fields["y"] + fields["height"], "the button is below the fields"
    page.locator("input[type=password]").fill("a-key-of-tests")
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_role("button", name="Disconnect")).to_be_visible()
    for path in ("/upstreams", "/upstreams/keyed", "/account"):
        tab.open(path)
        assert violations(tab) == [] and fits(tab.page), path
    tab.log_in(office.hub)
    for path in ("/upstreams?for=key:robot", "/upstreams/far?for=key:robot", "/upstreams/many?for=key:robot"):
        tab.open(path)
        assert violations(tab) == [] and fits(tab.page), path
    tab.close()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_text_from_a_mounted_server_and_its_issuer_is_shown_as_text(
    browser: Browser, office: Office, size: Any
) -> None:
    """Issue 16, item 6: the address of a mount, the reason of a refusal."""
    tab = office.open_as(f"hostile.{size['width']}", browser, viewport=size)
    for path in ("/upstreams", "/upstreams/strange", f"/upstreams/{quote(ALL[:200], safe='')}"):
        check_page(tab, path)
    page = tab.open("/upstreams/far")
    page.get_by_role("button", name="Connect an account").click()
    link = page.get_by_role("link", name="Continue to").get_attribute("href") or ""
    query = parse_qs(urlsplit(link).query)
    path = urlsplit(query["redirect_uri"][0]).path
    reason = quote(f"\u202e<script>alert(1)</script> {ALL}"[:300], safe="")
    check_page(tab, f"{path}?error=access_denied&state={query['state'][0]}&error_description={reason}", status=502)
    expect(page.get_by_role("alert")).to_contain_text("<script>alert(1)</script>")
    assert find_hidden_character(page.locator("body").inner_text()) is None
    tab.close()
