"""One call, watched: what it says while it runs, how it is stopped, what went over the wire."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from playwright.sync_api import Route, expect

from tests.browser.tabs import BOUND, REVISIONS, Tab
from tests.checkout import ROOT
from tests.waiting import until

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_and_logs_are_shown_as_they_stream(tab: Tab, revision: str) -> None:
    trial = tab.item("atelier", "steps")
    trial.choose(revision)
    trial.fill(many=100)
    trial.start()
    expect(trial.ran.locator(".stream")).to_contain_text("3 of 100: step 3", timeout=BOUND)
    expect(trial.state).to_have_text("Running…")
    bar = trial.ran.get_by_role("progressbar", name="Progress")
    assert bar.evaluate("each => each.value >= 3 && each.max === 100")
    expect(trial.ran.locator(".stream")).to_contain_text("at 4", timeout=BOUND)
    trial.ended()
    assert "counted" in trial.shown()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_is_cancelled_by_its_button(tab: Tab, revision: str, base: str) -> None:
    """By a notification in the one era, by the end of the stream in the other; the hub knows that it was."""
    trial = tab.item("atelier", "steps")
    trial.choose(revision)
    trial.fill(many=1000)
    trial.start()
    expect(trial.ran.locator(".stream")).to_contain_text("step 2", timeout=BOUND)
    trial.item.get_by_role("button", name="Cancel").click()
    expect(trial.state).to_have_text("Cancelled", timeout=BOUND)
    sent = trial.ran.locator(".wire .out").all_text_contents()
    assert any("notifications/cancelled" in each for each in sent) is (revision == "2025-11-25")
    expect(trial.item.get_by_role("button", name="Call")).to_be_enabled()
    address = f"{base}/activity.json?server=atelier&tool=steps&outcome=cancelled"

    def is_recorded() -> bool:
        records = tab.context.request.get(address).json()["records"]
        return any(record["revision"] == revision for record in records)

    until(is_recorded, "the record of the cancelled call")


def test_work_in_the_background_is_cancelled_too(tab: Tab) -> None:
    trial = tab.item("everything", "slow_compute")
    trial.choose("2026-07-28")
    trial.fill(seconds=60, label="It")
    trial.start()
    expect(trial.ran.locator(".stream")).to_contain_text("working", timeout=BOUND)
    trial.item.get_by_role("button", name="Cancel").click()
    expect(trial.state).to_have_text("Cancelled", timeout=BOUND)
    assert any("tasks/cancel" in each for each in trial.ran.locator(".wire .out").all_text_contents())


def test_a_question_can_be_declined_and_dismissed(tab: Tab) -> None:
    trial = tab.item("everything", "test_elicitation_sep1034_defaults")
    for button, action in (("Decline", "decline"), ("Cancel", "cancel")):
        trial.start()
        trial.reply(button)
        trial.ended()
        assert f"action={action}" in trial.shown()


def test_the_same_call_is_watched_in_both_eras(tab: Tab) -> None:
    """X-1: a handshake and a session in the one; one request that says everything in the other."""
    trial = tab.item("hello", "hello")
    trial.choose("2026-07-28")
    trial.call(name="Ada")
    (only,) = trial.ran.locator(".wire .out").all_text_contents()
    assert "Mcp-Method: tools/call" in only and "io.modelcontextprotocol/clientCapabilities" in only
    trial.choose("2025-11-25")
    trial.call(name="Ada")
    sent = trial.ran.locator(".wire .out").all_text_contents()
    said = ["initialize", "notifications/initialized", "logging/setLevel", "tools/call", "DELETE"]
    assert [word in text for word, text in zip(said, sent, strict=True)] == [True] * 5
    assert "Mcp-Session-Id" in sent[3]
    received = "\n".join(trial.ran.locator(".wire .in").all_text_contents())
    assert '"protocolVersion": "2025-11-25"' in received and "Hello, Ada!" in received


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_the_older_revisions_can_be_chosen(tab: Tab, revision: str) -> None:
    trial = tab.item("hello", "add")
    trial.choose(revision)
    trial.call(a=1, b=2)
    assert "3" in trial.shown()
    assert f"MCP-Protocol-Version: {revision}" in (trial.ran.locator(".wire .out").last.text_content() or "")


def test_the_time_it_took_is_shown(tab: Tab) -> None:
    trial = tab.item("hello", "hello")
    trial.call()
    expect(trial.ran.locator(".status")).to_contain_text(" ms")


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_request_can_be_copied_and_does_the_same_elsewhere(tab: Tab, revision: str) -> None:
    """Curl and Python, as they stand on the page, for a value that needs quoting."""
    value = 'it\'s "Ada" $HOME `x` é'
    trial = tab.item("hello", "hello")
    trial.choose(revision)
    trial.fill(name=value)
    trial.item.get_by_text("The same request").click()
    shown = trial.item.locator("details .copy pre code")
    expect(shown).to_have_count(3, timeout=BOUND)
    curl, python, patchbay = shown.all_text_contents()
    said = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
    # An answer that takes its time comes as an event.
    answer = next(line for line in said.stdout.splitlines() if '"result"' in line).removeprefix("data: ")
    assert json.loads(answer)["result"]["content"][0]["text"] == f"Hello, {value}!"
    said = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60, check=True)
    assert repr(f"Hello, {value}!") in said.stdout
    words = shlex.split(patchbay)
    said = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(said.stdout)["text"] == f"Hello, {value}!"


def test_resources_are_read_templates_and_prompts_are_filled_in(tab: Tab) -> None:
    """Text, an image, data; a template's address is made from its variables."""
    trial = tab.item("everything", "test://static-text")
    trial.call()
    assert "content of the static text resource" in trial.shown()
    tab.item("everything", "test://static-binary").call()
    assert tab.page.locator(".answer img").first.evaluate("each => each.complete && each.naturalWidth > 0")
    trial = tab.item("everything", "test://template/{id}/data")
    result = trial.call(id="a/b c")
    assert json.loads(result["contents"][0]["text"])["id"] == "a/b c"
    trial = tab.item("everything", "test_prompt_with_arguments")
    trial.call(arg1="x", arg2="y")
    assert "arg1='x', arg2='y'" in trial.shown()
    trial = tab.item("everything", "test_prompt_with_image")
    trial.call()
    expect(trial.ran.locator(".answer img")).to_be_visible()


def test_completions_are_suggested_while_an_argument_is_typed(tab: Tab) -> None:
    trial = tab.item("markdown", "draft")
    tone = trial.item.locator('[data-name="tone"]')
    tone.locator("input").fill("f")
    expect(tone.locator("datalist option")).to_have_count(2, timeout=BOUND)
    assert tone.locator("datalist option").evaluate_all("all => all.map((each) => each.value)") == [
        "friendly",
        "formal",
    ]


def test_suggestions_that_come_late_do_not_replace_newer_ones(tab: Tab) -> None:
    trial = tab.item("markdown", "draft")
    tone = trial.item.locator('[data-name="tone"]')
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        values = {"f": ["friendly", "formal"], "fo": ["formal"]}
        question = json.loads(route.request.post_data or "{}")
        if question.get("method") != "completion/complete":
            route.continue_()
        elif question["params"]["argument"]["value"] == "f" and not held:
            held.append(route)
        else:
            result = {
                "resultType": "complete",
                "completion": {"values": values[question["params"]["argument"]["value"]]},
            }
            route.fulfill(json={"jsonrpc": "2.0", "id": question["id"], "result": result})

    tab.page.route("**/mcp/**", hold_the_first)
    with tab.page.expect_request(lambda request: "completion/complete" in (request.post_data or "")):
        tone.locator("input").fill("f")
    tone.locator("input").fill("fo")
    expect(tone.locator("datalist option")).to_have_count(1, timeout=BOUND)
    with tab.page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].continue_()
    tab.page.evaluate("fetch('/healthz').then((answer) => answer.text())")  # the late answer came before
    assert tone.locator("datalist option").count() == 1


def test_results_are_shown_by_what_they_are(tab: Tab) -> None:
    """Text, Markdown as the hub renders it, a picture whose script does not run, sound, links and what they lead to."""
    trial = tab.item("atelier", "say")
    trial.call(
        text="# Title\n\n* **one** [far](https://example.org) [bad](javascript:alert(1))\n\n<script>alert(1)</script>"
    )
    trial.ran.get_by_role("button", name="Markdown").click()
    expect(trial.ran.locator(".markdown strong")).to_have_text("one", timeout=BOUND)
    assert trial.ran.locator(".markdown a[href]").evaluate_all("all => all.map((each) => each.href)") == [
        "https://example.org/"
    ]
    trial = tab.item("atelier", "picture")
    trial.call()
    expect(trial.ran.locator(".answer img")).to_be_visible()
    trial = tab.item("everything", "test_audio_content")
    trial.call()
    expect(trial.ran.locator(".answer audio")).to_be_visible()
    trial = tab.item("atelier", "links")
    trial.call()
    assert trial.ran.locator(".answer a").evaluate_all("all => all.map((each) => each.href)") == [
        "https://example.org/a"
    ]
    trial.ran.get_by_role("button", name="Read").first.click()
    expect(trial.ran.locator(".markdown li")).to_have_count(2, timeout=BOUND)
    trial = tab.item("mcp", "list_servers")
    trial.call()
    expect(trial.ran.locator(".tree").first).to_contain_text("everything")


def test_the_connection_test_shows_each_step(tab: Tab) -> None:
    """VWR-6: a connection test, in both eras."""
    page = tab.open("/servers/hello")
    page.get_by_role("button", name="Test the connection").click()
    expect(page.locator(".steps li .jack.on")).to_have_count(4, timeout=BOUND)
    expect(page.locator(".steps")).to_contain_text("2 tools: hello, add")
