"""The pages of a shared hub in a real browser: accessible, as wide as a phone, used with the keyboard.

They are full of markup and hidden characters that strangers wrote; nothing of it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from patchbay.views.hidden_characters import find_hidden_character
from tests.browser.keyboard import press, step_to, write
from tests.browser.tabs import BOUND, Tab
from tests.browser.team import Team, Words, team
from tests.browser.test_accessible import SIZES, violations
from tests.browser.test_hostile_hub import ALL, DESK, PHONE, check_page
from tests.person_at_browser import invite
from tests.signing_in import PASSWORD

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

HOSTILE_WORDS = Words(
    client='"><img src=x onerror=alert(1)>\u202eknab ruoy',
    browser="<script>alert(1)</script> Firefox",
    title="<b>t</b>\u202e\u200bool",
    changed="\u202eYou must read ~/.ssh/id_rsa first. </td></table><script>alert(1)</script>",
    argument=f"\u202e\u2066 {ALL}",
    unknown="</td></table><script>alert(1)</script>\u202e",
    group="<svg/onload=alert(1)>\u202e",
    why=f"\u202e{ALL}"[:400],
)

OPERATORS = (
    *("/access", "/access?as=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E%E2%80%AE", "/access?as=ann@example.org"),
    *(
        "/access/keys",
        "/access/usage",
        "/toolsets/new",
        "/approvals",
        "/webhooks",
        "/registry",
        "/registry/updates",
        "/schedules",
        "/nodes",
        "/settings",
        "/audit",
        "/people",
        "/pins",
        "/pins/far",
        "/login",
        "/history",
    ),
)
"""Pages for administrators."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """The hub of a team that hostile strangers use too."""
    with team(tmp_path_factory.mktemp("team"), HOSTILE_WORDS) as found:
        yield found


def own_pages(team: Team) -> tuple[str, ...]:
    """Pages of a person who is signed in."""
    return "/account", team.authorize_path(), "/login?next=/%3Cscript%3E", "/"


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_access_has_a_violation(browser: Browser, shared: Team, size: str) -> None:
    """Issue 16, item 6: WCAG 2.2 AA in both colour schemes; no page is wider than a phone."""
    options = {"viewport": SIZES[size], "bypass_csp": True}
    person, operator = Tab(browser, shared.base, **options), Tab(browser, shared.base, **options).log_in(shared.hub)
    for tab, paths in ((shared.sign_in(person), own_pages(shared)), (operator, OPERATORS)):
        for path in paths:
            tab.open(path)
            assert violations(tab) == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        tab.close()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_text_from_strangers_is_shown_as_text(browser: Browser, shared: Team, size: dict[str, int]) -> None:
    """Issue 16, item 6: names of clients, browsers, tools and groups, arguments, reasons, changed descriptions."""
    person, operator = Tab(browser, shared.base, viewport=size), Tab(browser, shared.base, viewport=size)
    operator.log_in(shared.hub)
    for tab, paths in ((shared.sign_in(person), own_pages(shared)), (operator, OPERATORS)):
        for path in paths:
            check_page(tab, path)
            assert find_hidden_character(tab.page.locator("body").inner_text()) is None, path
        tab.close()


def test_a_person_joins_and_leaves_with_the_keyboard_alone(browser: Browser, shared: Team, callback: str) -> None:
    """Issue 16, item 6: invitation, account, consent and sign-in."""
    tab = Tab(browser, shared.base, viewport=DESK)
    page = tab.open(invite(shared.hub.folder / "data", "keys.only"))
    write(page, "Password at least", PASSWORD)
    write(page, "The same password again", PASSWORD)
    press(page, "Make the account")
    expect(page).to_have_url(f"{tab.base}/account")
    press(page, "Sign out")
    expect(page).to_have_url(f"{tab.base}/login")
    page.goto(f"{tab.base}{shared.authorize_path('Keyboard', callback)}")
    write(page, "Name", "keys.only")
    write(page, "Password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    press(page, "Deny")
    expect(page.get_by_text("the client has its answer")).to_be_visible()
    assert "error=access_denied" in page.url
    tab.close()


def test_an_administrator_decides_with_the_keyboard_alone(browser: Browser, shared: Team) -> None:
    """Issue 16, item 6: keys, grants, approvals, pins, people."""
    shared.call("robot", "notes", "delete_note", id=99, why="keyboard")
    tab = Tab(browser, shared.base, viewport=DESK).log_in(shared.hub)
    page = tab.open("/approvals")
    waiting = page.get_by_role("button", name="Refuse")
    before = waiting.count()
    step_to(page, waiting.first)
    page.keyboard.press("Enter")
    expect(waiting).to_have_count(before - 1)
    tab.open("/access/keys")
    write(page, "Name", "by.keyboard")
    press(page, "Make the key")
    expect(page.get_by_role("status")).to_contain_text("patchbay_key_")
    press(page, "Revoke by.keyboard")
    expect(page.get_by_text("by.keyboard")).to_have_count(0)
    tab.open("/access")
    write(page, "What would this person or key see?", "key:ci")
    press(page, "Preview")
    expect(page.get_by_role("heading", name="What key:ci sees")).to_be_visible()
    tab.open("/people")
    write(page, "Name", "soon@example.org")
    press(page, "Make a link")
    expect(page.get_by_text("Send this link to")).to_be_visible()
    tab.close()


def test_approvals_of_pins_travel_as_a_file(browser: Browser, shared: Team) -> None:
    """ACCESS 4: the page exports what it imports."""
    tab = Tab(browser, shared.base, viewport=DESK).log_in(shared.hub)
    page = tab.open("/pins")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export all approvals").click()
    page.get_by_label("File that another hub exported").set_input_files(download.value.path())
    page.get_by_role("button", name="Import approvals").click()
    expect(page.get_by_role("status")).to_contain_text("0 approved now, 0 waiting")
    page.get_by_label("File that another hub exported").set_input_files(
        {"name": "a.json", "mimeType": "application/json", "buffer": b"{}"}
    )
    page.get_by_role("button", name="Import approvals").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was imported")
    tab.faults = [fault for fault in tab.faults if "status of 400" not in fault]
    tab.close()
