"""axe-core finds no violation on a page: both colour schemes, desk and phone, asking and answered.

A page is loaded once; the size of the screen and the colour scheme change on the loaded page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.browser.tabs import Tab
from tests.checkout import ROOT

pytestmark = pytest.mark.browser

AXE = ROOT / ".node/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SIZES: dict[str, ViewportSize] = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}
ON_A_PHONE: dict[str, Any] = {"viewport": SIZES["phone"], "bypass_csp": True}
"""Options of a tab whose pages `violations_in_sizes` checks."""

PAGES = (
    *("/", "/mcp", "/search?q=tree", "/search", "/servers/everything", "/servers/atelier", "/servers/broken"),
    *("/servers/jane/documents", "/servers/jane/documents/edit"),
)


DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
"""Wait for two frames: then the scripts of a page know its new size."""

COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules whose outcome depends on colours, which are all that a colour scheme changes."""


@cache
def axe() -> str:
    """The program of axe-core, which a page has until it is left."""
    return f"if (!window.axe) {{ {AXE.read_text()} }}"


def violations(tab: Tab) -> list[str]:
    """What axe-core finds in the light colour scheme, and of colours in the dark one; a line for each element."""
    tab.page.wait_for_load_state("load")  # a page that a form led to may lack its styles yet
    tab.page.evaluate(axe())
    found = run_axe(tab, {"type": "tag", "values": RULES})
    tab.page.emulate_media(color_scheme="dark")
    found += run_axe(tab, {"type": "rule", "values": COLOURS})
    tab.page.emulate_media(color_scheme="light")
    return found


def run_axe(tab: Tab, rules: dict[str, Any]) -> list[str]:
    """What axe-core finds with these rules."""
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = tab.page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{each['id']}: {node['html'][:160]}: {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def violations_in_sizes(tab: Tab) -> list[str]:
    """What axe-core finds on a phone and on a desk, and on which of them the page is wider than the screen.

    Open the tab with the options `ON_A_PHONE`. Scripts that depend on the width do the same after a change of the
    width as at the load of a page, so no page is loaded twice. Afterwards, the tab has the size of a phone again.
    """
    found = []
    for size in ("phone", "desk"):
        tab.page.set_viewport_size(SIZES[size])
        tab.page.evaluate(DRAWN)
        found += [f"{size}: {each}" for each in violations(tab)]
        if not tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            found.append(f"{size}: the page is wider than the screen")
    tab.page.set_viewport_size(SIZES["phone"])
    return found


@pytest.fixture(params=SIZES)
def seen(browser: Browser, base: str, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A tab in one size: a page on which several entries are open shows one of them on a desk."""
    tab = Tab(browser, base, viewport=SIZES[request.param], bypass_csp=True)
    yield tab
    tab.close()


def test_no_page_has_a_violation(browser: Browser, base: str) -> None:
    """WCAG 2.2 AA."""
    tab = Tab(browser, base, **ON_A_PHONE)
    for path in PAGES:
        tab.open(path)
        assert violations_in_sizes(tab) == [], path
    tab.close()


def test_no_form_answer_or_question_has_a_violation(seen: Tab) -> None:
    """WCAG 2.2 AA, of what scripts add: a hard form, results of all kinds, progress, the wire, questions."""
    trial = seen.item("atelier", "order")
    trial.item.get_by_role("button", name="Add to parts").click()
    trial.item.locator("details > summary").first.click()
    trial.item.get_by_text("The same request").click()
    trial.call(who="Ada", city="Bern", **{"name": "nut"})
    trial.ran.get_by_text("Protocol messages").click()
    seen.item("atelier", "links").call()
    steps = seen.item("atelier", "steps")
    steps.call(many=3)
    assert violations(seen) == []
    seen.item("everything", "test_multiple_content_types").call()
    for name in ("test_elicitation_sep1330_enums", "test_sampling", "test_input_required_result_list_roots"):
        asking = seen.item("everything", name)
        asking.fill(**({"prompt": "Hi"} if name == "test_sampling" else {}))
        asking.start()
        asking.question()
    seen.item("everything", "test_error_handling").call("The tool reports an error")
    assert violations(seen) == []
