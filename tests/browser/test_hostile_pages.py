"""Sixty hostile strings in every field that a real browser shows: no dialog, nothing executed, the layout intact."""

from __future__ import annotations

import pytest

from tests.browser.tabs import Tab
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser

STRANGERS = """() => document.querySelectorAll(
  ".answer script, .answer iframe, .answer object, .answer embed, .answer form, .answer style, .answer base," +
  ".answer meta, .answer link, .answer svg, .answer math, .answer video, .answer marquee, .answer template,"
  + " .answer [style]," +
  ".answer [href^='javascript' i], .answer [href^='data' i], .answer [href^='vbscript' i], .answer [onerror]," +
  ".question script, .question iframe, .question svg, .stream script, .stream img").length"""


@pytest.mark.parametrize("group", range(4))
def test_a_hostile_string_is_only_ever_text(tab: Tab, group: int) -> None:
    """T14.2, S24: in every field of every kind of content, in an error, in progress, a log line and a question."""
    mixed, fail, tell = (tab.item("hostile", name) for name in ("mixed", "fail", "tell"))
    for number in range(group, len(HOSTILE), 4):
        for trial, state in ((mixed, "Done"), (fail, "The tool reports an error")):
            trial.call(state, number=number)
            assert words(HOSTILE[number]) in words(trial.ran.locator(".answer").text_content())
        tell.fill(number=number)
        tell.start()
        assert words(HOSTILE[number]) in words(tell.question().text_content())
        assert tab.page.evaluate(STRANGERS) == 0, HOSTILE[number]
        tell.reply("Send the answer")
        tell.ended()
        assert tab.page.evaluate(STRANGERS) == 0, HOSTILE[number]
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), HOSTILE[number]
        assert tab.faults == [], HOSTILE[number]


def words(text: str | None) -> str:
    return " ".join((text or "").split())
