"""Apps (SEP-1865) in a real browser: the sample servers of the extension, as npm ships them, on our page.

One hub mounts them over standard input and output; another mounts `/mcp` of the first one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FrameLocator, Locator, expect

from tests.browser.tabs import BOUND, REVISIONS, Tab, Trial
from tests.browser.test_accessible import violations
from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES
from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.node]
expect.set_options(timeout=BOUND)

PROBE = "console: the policy forbade script-src: eval  at "
"""The library of the sample apps tries whether it may compile code, and goes on without."""

SAMPLES = {"clock": "server-basic-vanillajs", "budget": "server-budget-allocator", "monitor": "server-system-monitor"}


ASKER = '''"""Numbers that the caller chooses."""

UI = {"roll": "dice.html"}


def roll(context) -> dict[str, int]:
    """Ask for a number, and give it."""
    form = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    return {"rolled": context.elicit("Which number?", form)["content"]["number"]}
'''


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the sample servers as programs."""
    folder = tmp_path_factory.mktemp("near")
    (folder / "servers").mkdir()
    for name, package in SAMPLES.items():
        program = PACKAGES / f"node_modules/@modelcontextprotocol/{package}/dist/index.js"
        address = f"mcp+stdio:{shlex.join([str(NODE), str(program), '--stdio'])}"
        (folder / "servers" / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address}))
    shaped = {"from": "clock.get-time", "description": "The time."}
    desk = {"tools": {"watch": shaped, "info": "monitor.get-system-info"}, "include": ["monitor.poll-system-stats"]}
    (folder / "servers" / "desk.json").write_text(json.dumps({"kind": "toolset", **desk}))
    with running(folder) as hub:
        for name, tool in (("clock", b"get-time"), ("budget", b"get-budget-data"), ("monitor", b"poll-system-stats")):
            wait_for_tool(hub, name, tool)
        yield hub
        assert hub.end() == 0


def wait_for_tool(hub: Hub, server: str, tool: bytes) -> None:
    """Wait until a mount lists a tool."""
    until(lambda: tool in hub.get(f"/servers/{server}.json")[1], f"the tools of {server}")


@pytest.fixture(scope="module")
def far(near: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that has the servers of the first one through its `/mcp`."""
    folder = tmp_path_factory.mktemp("far")
    (folder / "servers").mkdir()
    address = f"http://127.0.0.1:{near.port}/mcp"
    (folder / "servers" / "all.json").write_text(json.dumps({"kind": "upstream", "address": address}))
    with running(folder) as hub:
        wait_for_tool(hub, "all", b"monitor__poll-system-stats")
        yield hub
        assert hub.end() == 0


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A shared hub with the example of the documentation, one with a policy and permissions, and one that asks."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "servers").mkdir()
    text = (ROOT / "docs/apps.md").read_text("utf-8")
    for language, file in (("python", "dice.py"), ("html", "dice.html")):
        [block] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (folder / "servers" / file).write_text(block, "utf-8")
    (folder / "servers" / "lens.py").write_text((folder / "servers" / "dice.py").read_text())
    ui = {"csp": {"connectDomains": ["https://api.example", "*"]}, "permissions": {"camera": {}, "clipboardWrite": {}}}
    lens = {"auto_discover": True, "resources": {"dice.html": {"uri": "ui://dice.html", "_meta": {"ui": ui}}}}
    (folder / "servers" / "lens.mcp.json").write_text(json.dumps(lens))
    (folder / "servers" / "asker.py").write_text(ASKER)
    with running(folder, "--access", "shared") as hub:
        yield hub
        assert hub.end() == 0


@pytest.fixture(params=["through a mount", "through /mcp of a hub"])
def place(request: pytest.FixtureRequest, browser: Browser) -> Iterator[tuple[Tab, str]]:
    """A tab, and the server and the prefix of its tools there: `clock get-time` or `all clock__get-time`."""
    is_far = request.param != "through a mount"
    hub: Hub = request.getfixturevalue("far" if is_far else "near")
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}", viewport={"width": 1280, "height": 900})
    yield tab, "all" if is_far else ""
    tab.context.close()
    assert [fault for fault in tab.faults if fault != PROBE] == []


def called(place: tuple[Tab, str], server: str, tool: str, revision: str) -> Trial:
    """Call a tool with its form; wait until its app runs."""
    tab, all_servers = place
    trial = tab.item(all_servers or server, f"{server}__{tool}" if all_servers else tool)
    trial.choose(revision)
    trial.call()
    expect(trial.item.locator(".app .state")).to_have_text("Running")
    return trial


def app_of(trial: Trial) -> FrameLocator:
    """The document of the app: the inner one of two frames."""
    return trial.item.frame_locator(".app-frame iframe").frame_locator("iframe")


def sent(trial: Trial, way: str, method: str) -> Locator:
    """The messages of one method that the log of the app shows: `to-app` or `from-app`."""
    return trial.item.locator(f".app .wire .{way}").filter(has_text=f": {method}")


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_clock_shows_the_time_of_its_server_and_asks_it_again(place: tuple[Tab, str], revision: str) -> None:
    """37.2."""
    trial = called(place, "clock", "get-time", revision)
    app = app_of(trial)
    first = trial.result()["structuredContent"]["time"]
    expect(app.get_by_text(first)).to_be_visible()
    app.get_by_role("button", name="Get Server Time").click()
    expect(sent(trial, "from-app", "tools/call")).to_have_count(1)
    expect(app.get_by_text(first)).to_have_count(0)


def test_the_budget_gets_the_height_it_needs(place: tuple[Tab, str]) -> None:
    """37.2."""
    trial = called(place, "budget", "get-budget-data", REVISIONS[-1])
    app = app_of(trial)
    expect(app.get_by_text("Marketing", exact=True).first).to_be_visible()
    expect(app.locator("canvas").first).to_be_visible()
    expect(trial.item.locator(".app-frame iframe")).not_to_have_attribute("height", "240")
    needed, given = app.locator("html").evaluate("(each) => [each.scrollHeight, each.clientHeight]")
    assert needed <= given


def test_the_monitor_polls_a_tool_that_is_for_apps_only(place: tuple[Tab, str]) -> None:
    """37.2."""
    trial = called(place, "monitor", "get-system-info", REVISIONS[-1])
    expect(sent(trial, "from-app", "tools/call").filter(has_text="poll-system-stats")).not_to_have_count(0)
    expect(sent(trial, "to-app", "result").filter(has_text="usedPercent")).not_to_have_count(0)


@pytest.mark.parametrize(("tool", "calls"), [("watch", "get-time"), ("info", "poll-system-stats")])
def test_an_app_works_through_a_toolset_that_renames_its_tool(
    near: Hub, browser: Browser, tool: str, calls: str
) -> None:
    """54.1."""
    tab = Tab(browser, f"http://127.0.0.1:{near.port}", viewport={"width": 1280, "height": 900})
    trial = called((tab, ""), "desk", tool, REVISIONS[-1])
    if tool == "watch":
        first = trial.result()["structuredContent"]["time"]
        expect(app_of(trial).get_by_text(first)).to_be_visible()
        app_of(trial).get_by_role("button", name="Get Server Time").click()
        expect(app_of(trial).get_by_text(first)).to_have_count(0)
    expect(sent(trial, "from-app", "tools/call").filter(has_text=calls)).not_to_have_count(0)
    expect(sent(trial, "to-app", "result").filter(has_text='"isError": true')).to_have_count(0)
    tab.context.close()
    assert [fault for fault in tab.faults if fault != PROBE] == []


def test_an_app_follows_the_colours_and_the_width_of_the_page(place: tuple[Tab, str]) -> None:
    """37.2."""
    tab, _ = place
    tab.page.emulate_media(color_scheme="light")
    trial = called(place, "clock", "get-time", REVISIONS[-1])
    expect(sent(trial, "to-app", "result").filter(has_text='"theme": "light"')).to_have_count(1)
    changed = sent(trial, "to-app", "ui/notifications/host-context-changed")
    tab.page.emulate_media(color_scheme="dark")
    expect(changed.filter(has_text='"theme": "dark"')).to_have_count(1)
    tab.page.set_viewport_size({"width": 400, "height": 900})
    expect(changed.filter(has_text="containerDimensions")).not_to_have_count(0)


def test_what_an_app_says_to_the_conversation_and_to_the_log_is_shown(place: tuple[Tab, str]) -> None:
    """37.2."""
    tab, _ = place
    trial = called(place, "clock", "get-time", REVISIONS[-1])
    app = app_of(trial)
    app.get_by_role("button", name="Send Message").click()
    expect(trial.item.get_by_text("The app writes to the conversation")).to_be_visible()
    expect(trial.item.locator(".app .ran").get_by_text("This is message text.")).to_be_visible()
    app.get_by_role("button", name="Send Log").click()
    expect(tab.page.locator(".dock .stream").get_by_text("This is log text.")).to_have_count(1)


def test_a_link_of_an_app_is_opened_by_the_reader_alone(place: tuple[Tab, str]) -> None:
    """37.2."""
    tab, _ = place
    tab.context.route("https://modelcontextprotocol.io/**", lambda route: route.fulfill(body="the linked page"))
    trial = called(place, "clock", "get-time", REVISIONS[-1])
    asked = trial.item.get_by_role("group", name="A link of the app")
    app_of(trial).get_by_role("button", name="Open Link").click()
    asked.get_by_role("button", name="Refuse").click()
    expect(sent(trial, "to-app", "result").filter(has_text='"isError": true')).to_have_count(1)
    assert len(tab.context.pages) == 1
    app_of(trial).get_by_role("button", name="Open Link").click()
    with tab.context.expect_page() as opened:
        asked.get_by_role("link", name="https://modelcontextprotocol.io/").click()
    expect(opened.value.get_by_text("the linked page")).to_be_visible()
    assert opened.value.evaluate("opener") is None
    expect(asked).to_have_count(0)


def test_the_app_of_the_documentation_rolls_and_rolls_again(written: Hub, browser: Browser) -> None:
    """37.2."""
    tab = Tab(browser, f"http://127.0.0.1:{written.port}", viewport={"width": 1280, "height": 900}).log_in(written)
    trial = called((tab, ""), "dice", "roll", REVISIONS[-1])
    app = app_of(trial)
    expect(app.locator("#rolled")).to_have_text(str(trial.result()["structuredContent"]["rolled"]))
    app.get_by_role("button", name="Roll again").click()
    expect(sent(trial, "to-app", "result").filter(has_text='"rolled"')).to_have_count(1)
    trial.item.get_by_role("button", name="Close the app").click()
    expect(trial.item.locator(".app .state")).to_have_text("Closed: closed on the page")
    expect(sent(trial, "from-app", "result")).to_have_count(1)
    tab.close()


def test_the_page_says_what_an_app_may_reach_and_ask_for_and_what_was_refused(written: Hub, browser: Browser) -> None:
    """37.2: `_meta.ui.csp` and `_meta.ui.permissions`."""
    tab = Tab(browser, f"http://127.0.0.1:{written.port}", viewport={"width": 1280, "height": 900}).log_in(written)
    trial = called((tab, ""), "lens", "roll", REVISIONS[-1])
    facts = trial.item.locator(".app > .facts")
    expect(facts).to_contain_text("May reach https://api.example")
    expect(facts).to_contain_text("May ask you for camera, clipboardWrite")
    expect(facts).to_contain_text("Refused: *")
    frame = trial.item.locator(".app-frame iframe")
    expect(frame).to_have_attribute("allow", "camera; clipboard-write")
    inner = trial.item.frame_locator(".app-frame iframe").locator("iframe")
    expect(inner).to_have_attribute("allow", "camera; clipboard-write")
    given = sent(trial, "to-app", "result").filter(has_text='"sandbox"')
    expect(given).to_contain_text('"https://api.example"')
    expect(given).to_contain_text('"clipboardWrite"')
    tab.close()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_question_of_a_call_of_an_app_is_asked_on_the_page(written: Hub, browser: Browser, revision: str) -> None:
    """37.2."""
    tab = Tab(browser, f"http://127.0.0.1:{written.port}", viewport={"width": 1280, "height": 900}).log_in(written)
    trial = tab.item("asker", "roll")
    trial.choose(revision)
    trial.start()
    trial.reply("Send the answer", number=3)
    trial.ended()
    rolled = app_of(trial).locator("#rolled")
    expect(rolled).to_have_text("3")
    app_of(trial).get_by_role("button", name="Roll again").click()
    expect(trial.item.locator(".app .question")).to_be_visible()
    trial.reply("Send the answer", number=5)
    expect(rolled).to_have_text("5")
    tab.close()


def test_an_app_hears_that_its_tool_was_cancelled(written: Hub, browser: Browser) -> None:
    """37.2."""
    tab = Tab(browser, f"http://127.0.0.1:{written.port}", viewport={"width": 1280, "height": 900}).log_in(written)
    trial = tab.item("asker", "roll")
    trial.start()
    trial.question()
    trial.item.get_by_role("button", name="Cancel", exact=True).first.click()
    expect(trial.state).to_have_text("Cancelled")
    expect(sent(trial, "to-app", "ui/notifications/tool-cancelled")).to_have_count(1)
    expect(sent(trial, "to-app", "ui/notifications/tool-result")).to_have_count(0)
    tab.close()


def test_an_inspected_server_shows_its_app(near: Hub, written: Hub, browser: Browser) -> None:
    """37.2: `/mcp` of a hub by its address, without a mount."""
    tab = Tab(browser, f"http://127.0.0.1:{written.port}", viewport={"width": 1280, "height": 900}).log_in(written)
    page = tab.open("/inspect")
    page.get_by_role("textbox", name="Address").fill(f"http://127.0.0.1:{near.port}/mcp")
    page.get_by_role("button", name="Inspect", exact=True).click()
    item = page.locator("details.item").filter(has=page.locator("h3").get_by_text("clock__get-time", exact=True))
    item.locator("summary").first.click()
    trial = Trial(item)
    trial.call()
    app = app_of(trial)
    expect(trial.item.locator(".app .state")).to_have_text("Running")
    first = trial.result()["structuredContent"]["time"]
    expect(app.get_by_text(first)).to_be_visible()
    app.get_by_role("button", name="Get Server Time").click()
    expect(app.get_by_text(first)).to_have_count(0)
    tab.context.close()
    assert [fault for fault in tab.faults if fault != PROBE] == []


def test_an_app_is_shown_accessibly(near: Hub, browser: Browser) -> None:
    """37.2."""
    tab = Tab(browser, f"http://127.0.0.1:{near.port}", viewport={"width": 360, "height": 740}, bypass_csp=True)
    trial = called((tab, ""), "clock", "get-time", REVISIONS[-1])
    trial.item.get_by_text("Messages of the app").click()
    assert violations(tab) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.context.close()


def test_a_second_call_ends_the_app_of_the_first_one(place: tuple[Tab, str]) -> None:
    """37.2: the app hears of it before it goes."""
    trial = called(place, "clock", "get-time", REVISIONS[-1])
    first = trial.item.locator(".app").element_handle()
    trial.item.get_by_role("button", name="Close the app").click()
    expect(sent(trial, "to-app", "ui/resource-teardown")).to_have_count(1)
    expect(trial.item.locator(".app .state")).to_have_text("Closed: closed on the page")
    expect(trial.item.locator(".app-frame iframe")).to_have_count(0)
    trial.call()
    expect(trial.item.locator(".app .state")).to_have_text("Running")
    assert not first.evaluate("(each) => each.isConnected")
