"""Sign-in with oidc-provider in a real browser: the button, the provider's pages, the account, and the sign-out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.access.tokens.issuers import Issuer, running_issuer
from tests.browser.tabs import Tab
from tests.browser.test_accessible import SIZES, violations
from tests.interaction.programs import free_port
from tests.serving.running import Hub, running

pytestmark = [pytest.mark.browser, pytest.mark.node]


@pytest.fixture(scope="module")
def issuer_and_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Issuer, Hub]]:
    """A provider with the hub as a public client, and the hub at the host name `localhost`."""
    folder = tmp_path_factory.mktemp("company")
    port, file = free_port(), folder / "people.json"
    base = f"http://localhost:{port}"
    client = {
        "client_id": "patchbay",
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": [f"{base}/sign-in/acme/callback"],
        "post_logout_redirect_uris": [f"{base}/login"],
    }
    people = {"ann": {"groups": ["research", "ops"], "email": "ann@example.org", "email_verified": True}}
    file.write_text(json.dumps({"clients": [client], "people": people}))
    (folder / "hub").mkdir()
    with running_issuer(folder / "issuer", more=file) as issuer:
        providers = f"Acme={issuer.url},Away=http://127.0.0.1:{free_port()}"
        options = ("--sign-in", providers, "--sign-in-client", "Acme=patchbay,Away=hub", "--port", str(port))
        with running(folder / "hub", *options) as hub:
            yield issuer, hub
            assert hub.end() == 0


@pytest.fixture
def page(browser: Browser, issuer_and_hub: tuple[Issuer, Hub]) -> Iterator[Page]:
    """A tab of its own. The test fails when a page of the hub complains, as about its policy."""
    base = f"http://localhost:{issuer_and_hub[1].port}"
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and tab.url.startswith(base):
            complaints.append(message.text)

    context = browser.new_context(base_url=base)
    tab = context.new_page()
    tab.on("console", note)
    yield tab
    context.close()
    assert complaints == []


def sign_in_at_provider(page: Page, name: str) -> None:
    """Fill the forms of the provider's pages."""
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.locator("button[type=submit]").click()  # the question whether the hub may know this


def test_a_person_signs_in_with_the_button_and_out_at_both(page: Page) -> None:
    page.goto("/upstreams")
    expect(page).to_have_url("/login?next=/upstreams")
    page.get_by_role("link", name="Sign in with Acme").click()
    sign_in_at_provider(page, "ann")
    expect(page).to_have_url("/upstreams")
    page.get_by_role("link", name="Name of ann").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Name of ann")
    expect(page.get_by_text("ann@example.org")).to_be_visible()
    expect(page.get_by_text("ops, research")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page.get_by_role("link", name="Sign in with Acme")).to_be_visible()
    page.get_by_role("link", name="Sign in with Acme").click()
    expect(page.locator("input[name=login]")).to_be_visible()


def test_the_operator_sees_issuer_subject_and_groups_and_invites(
    page: Page, issuer_and_hub: tuple[Issuer, Hub]
) -> None:
    issuer, hub = issuer_and_hub
    page.goto("/login")
    page.get_by_role("link", name="Sign in with Acme").click()
    sign_in_at_provider(page, "ben")
    expect(page).to_have_url("/")
    page.context.clear_cookies()
    page.goto(hub.login_path())
    page.goto("/people")
    row = page.get_by_role("row").filter(has_text="Name of ben")
    expect(row).to_contain_text(issuer.url)
    expect(row).to_contain_text("subject ben")
    expect(row).to_contain_text("Groups: research")
    expect(row).to_contain_text("Acme, last")
    page.get_by_label("E-mail address or subject").fill("carl@example.org")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="carl@example.org")).to_be_visible()
    page.get_by_role("button", name="Withdraw the invitation of carl@example.org").click()
    expect(page.get_by_text("carl@example.org")).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_a_sign_in_with_a_provider_has_a_violation(
    browser: Browser, issuer_and_hub: tuple[Issuer, Hub], size: str
) -> None:
    """WCAG 2.2 AA: the buttons, a failed sign-in, a provider that is away, the account, the sign-out, the people."""
    issuer, hub = issuer_and_hub
    tab = Tab(browser, f"http://localhost:{hub.port}", viewport=SIZES[size], bypass_csp=True)
    page, name = tab.page, f"eva-{size}"

    def check(heading: str) -> None:
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        assert violations(tab) == [], heading
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), heading

    tab.open("/login")
    check("Sign in")
    page.goto(f"{tab.base}/sign-in/acme/callback?code=x&state=y")
    check("Sign in")
    page.goto(f"{tab.base}/sign-in/away")
    check("Sign in")
    tab.open("/login?next=/account")
    page.get_by_role("link", name="Sign in with Acme").click()
    sign_in_at_provider(page, name)
    check(f"Name of {name}")
    page.get_by_role("link", name="Sign out").click()
    check("Sign in")
    page.route(f"{issuer.url}/**", lambda route: route.fulfill(status=204))  # stay on the page that leads there
    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    check("Signed out")
    tab.log_in(hub).open("/people")
    page.get_by_label("E-mail address or subject").fill(f"{'a' * 60}@{'long.' * 12}example.org")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.get_by_role("columnheader", name="Signs in at")).to_be_visible()
    check("People")
    tab.faults = [fault for fault in tab.faults if "status of 400" not in fault and "status of 503" not in fault]
    tab.close()
