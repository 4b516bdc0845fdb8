"""The operator in a real browser: logging in, changing something, logging out, where a token is asked for (VWR-6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab, launched
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser

FAR = "hub.example"
"""A name by which the hub is not a neighbour of the browser."""

CHANGE = """async (headers) => {
  const answer = await fetch("/variables/colour", { method: "PUT", body: "red", headers });
  return answer.status;
}"""


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    """A hub that listens on every address of this machine."""
    folder = tmp_path_factory.mktemp("exposed")
    with running(
        folder, "--host", "0.0.0.0", "--access", "open", "--allowed-hosts", f"localhost,127.0.0.1,{FAR}"
    ) as hub:
        yield hub, folder
        assert hub.end() == 0


@pytest.fixture
def tab(browser: Browser, exposed: tuple[Hub, Path]) -> Iterator[Tab]:
    tab = Tab(browser, f"http://127.0.0.1:{exposed[0].port}", viewport={"width": 1280, "height": 900})
    yield tab
    tab.close()


def forget(tab: Tab, status: int) -> None:
    """Chromium writes what was refused to its console."""
    found = [fault for fault in tab.faults if f"status of {status}" in fault]
    assert found, tab.faults
    tab.faults = [fault for fault in tab.faults if fault not in found]


def test_the_link_of_the_terminal_logs_one_browser_in(browser: Browser, exposed: tuple[Hub, Path]) -> None:
    hub, _ = exposed
    link = hub.link()
    assert link.startswith(f"http://127.0.0.1:{hub.port}/login?once=")
    mine, other = (Tab(browser, f"http://127.0.0.1:{hub.port}") for _ in range(2))
    mine.page.goto(link)
    expect(mine.page).to_have_url(f"{mine.base}/")
    expect(mine.page.get_by_text("You are logged in as the operator")).to_be_visible()
    assert mine.page.evaluate(CHANGE, {}) in (200, 201)
    other.page.goto(link)
    expect(other.page.get_by_role("alert")).to_contain_text("was used before")
    assert other.page.evaluate(CHANGE, {}) == 401
    forget(other, 401)
    mine.close()
    other.close()
    assert not any(hub.token() in line for line in hub.lines)


def test_the_operator_logs_in_changes_something_and_logs_out(tab: Tab, exposed: tuple[Hub, Path]) -> None:
    page = tab.open("/login?next=/variables")
    assert page.evaluate(CHANGE, {}) == 401
    page.get_by_label("Token").fill("patchbay_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("operator's token is wrong", timeout=BOUND)
    assert "patchbay_wrong" not in page.content()
    forget(tab, 401)
    page.get_by_label("Token").fill(exposed[0].token())
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{tab.base}/variables", timeout=BOUND)
    expect(page.get_by_text("You are logged in as the operator")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate(CHANGE, {}) in (200, 201)
    page.goto(f"{tab.base}/login")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible(timeout=BOUND)
    assert page.evaluate(CHANGE, {}) == 401
    forget(tab, 401)


def test_another_site_can_use_no_session(tab: Tab, exposed: tuple[Hub, Path]) -> None:
    """THREATS 1.4: S26, S27."""
    page = tab.open("/login")
    page.get_by_label("Token").fill(exposed[0].token())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("You are logged in as the operator")).to_be_visible(timeout=BOUND)
    here = f"http://localhost:{exposed[0].port}"
    page.route(
        f"{here}/elsewhere",
        lambda route: route.fulfill(
            content_type="text/html",
            body=(f'<form method="post" action="{tab.base}/history/rollback"><button>Win a prize</button></form>'),
        ),
    )
    page.goto(f"{here}/elsewhere")
    page.get_by_role("button", name="Win a prize").click()
    expect(page.get_by_text("came from another site")).to_be_visible(timeout=BOUND)
    forget(tab, 403)


def test_on_its_own_machine_too_a_browser_has_to_log_in(browser: Browser, base: str) -> None:
    tab = Tab(browser, base)
    page = tab.open("/login")
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_text("Operator login")).to_be_visible()
    assert page.evaluate(CHANGE, {}) == 401
    forget(tab, 401)
    tab.close()


def test_tools_are_called_over_plain_http_from_another_machine(browser: Browser, exposed: tuple[Hub, Path]) -> None:
    """Browsers keep parts of what scripts may use, such as `crypto.randomUUID`, for HTTPS and the machine itself."""
    playwright = cast(Any, SimpleNamespace(chromium=browser.browser_type))
    far = launched(playwright, f"--host-resolver-rules=MAP {FAR} 127.0.0.1")
    tab = Tab(far, f"http://{FAR}:{exposed[0].port}")
    trial = tab.item("echo", "echo")
    assert tab.page.evaluate("isSecureContext") is False
    trial.call(message="hello")
    assert "hello" in trial.shown()
    tab.faults = [fault for fault in tab.faults if "Cross-Origin-Opener-Policy" not in fault]
    tab.close()
    far.close()
