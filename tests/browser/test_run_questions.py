"""A tool asks inside a script of `patchbay run` without a terminal; its user answers on the page, without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from patchbay import exit_codes
from tests.browser.tabs import BOUND
from tests.browser.test_accessible import violations
from tests.browser.test_toolsets import SIZES, opened
from tests.cli.servers.commands import run_command
from tests.scripting.asking import DESK_FILES
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

SEAT = "import desk\nawait desk.seat(folder=folder)\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("questions")
    (folder / "servers").mkdir()
    for name, text in DESK_FILES.items():
        (folder / "servers" / name).write_text(text)
    (folder / "seat.py").write_text(SEAT)
    with running(folder) as found:
        yield found
        assert found.end() == 0


def test_the_user_of_a_client_without_forms_answers_on_the_page_that_its_answer_names(
    browser: Browser, hub: Hub, tmp_path: Path
) -> None:
    """Without JavaScript, on a phone; WCAG 2.2 AA before and after a wrong answer."""
    given = ("--input", f"folder={tmp_path}")
    said = run_command(
        hub.folder, "run", str(hub.folder / "seat.py"), "--at", f"http://127.0.0.1:{hub.port}/mcp/desk", *given
    )
    assert said.code == exit_codes.FAILED
    (path, run) = re.findall(rf"http://127\.0\.0\.1:{hub.port}(/activity/runs/([0-9a-f]{{16}}))", said.out)[0]
    seen = opened(browser, hub, bypass_csp=True)
    tab = opened(browser, hub, "phone", java_script_enabled=False)
    page = tab.open(path)
    expect(page.get_by_role("heading", name="A tool asks you")).to_be_visible()
    question = page.get_by_role("group", name="desk.seat asks in line 2")
    expect(question).to_contain_text("Which seat?")
    for size in SIZES.values():
        seen.page.set_viewport_size({"width": size["width"], "height": size["height"]})
        seen.open(path)
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(seen) == []
        seen.page.get_by_role("button", name="Answer", exact=True).click()
        expect(seen.page.get_by_label("Who required")).to_have_accessible_description(re.compile("Give a value here"))
        assert violations(seen) == []
    question.get_by_label("Who required").fill("A")
    question.get_by_label("row required").fill("4")
    question.get_by_label("window").select_option(label="No")
    question.get_by_role("group", name="meals").get_by_label("cake").check()
    question.get_by_role("button", name="Answer", exact=True).click()
    expect(question.get_by_label("Who required")).to_have_accessible_description(
        re.compile("shorter than 2 characters")
    )
    expect(question.get_by_label("row required")).to_have_value("4")
    expect(question.get_by_label("window")).to_have_value("false")
    expect(question.get_by_label("cake")).to_be_checked()
    question.get_by_label("Who required").fill("Ann")
    question.get_by_label("Who required").press("Enter")
    expect(page.get_by_role("heading", name="A tool asks you")).to_have_count(0)
    shown = run_command(hub.folder, "runs", "show", run, "--wait", "--text")
    assert "('meals', ['cake']), ('name', 'Ann'), ('row', 4), ('window', False)" in shown.out
    page.reload()
    expect(page.get_by_role("region", name="Result").locator("pre").first).to_contain_text("('name', 'Ann')")
    for one in (seen, tab):  # Chromium writes to its console that a wrong answer was refused
        one.faults = [fault for fault in one.faults if "status of 400" not in fault]
        one.close()
