"""Forms made from JSON Schemas: the tool gets the values of the form."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.tabs import Tab

pytestmark = pytest.mark.browser


def test_a_form_says_everything_its_schema_can_hold(tab: Tab) -> None:
    """Objects in objects, lists of objects, choices, numbers, dates, optional values and any JSON."""
    trial = tab.item("atelier", "order")
    trial.fill(
        who="Ada", email="a@b.org", day="2026-01-31", many=3, weight=0.5, fragile="yes", street="Main", city="Bern"
    )
    trial.fill(size="large", note="hi", extra={"x": [1, None]})
    form = trial.item.locator(".try form").first
    form.locator('[data-name="moment"] input').fill("2026-01-31T12:00:00")
    form.get_by_label("green").check()
    for name, count in (("bolt", "2"), ("nut", "5")):
        form.get_by_role("button", name="Add to parts").click()
        entry = form.locator('[data-name="parts"] .entry').last
        entry.locator('[data-name="name"] input').fill(name)
        entry.locator('[data-name="count"] input').fill(count)
    form.get_by_role("button", name="Add to parts").click()
    form.get_by_role("button", name="Remove").last.click()
    form.get_by_label("limit: type of value").select_option(label="string")
    form.locator(
        '[data-name="limit"] [data-name="limit"] textarea, [data-name="limit"] [data-name="limit"] input'
    ).fill("ten")
    given = trial.call()["structuredContent"]
    moment = given.pop("moment")
    assert moment.endswith("Z") and "2026-01-31T" in moment
    assert given == {
        "who": "Ada",
        "email": "a@b.org",
        "day": "2026-01-31",
        "size": "large",
        "many": 3,
        "weight": 0.5,
        "gift": True,
        "fragile": True,
        "address": {"street": "Main", "city": "Bern"},
        "colours": ["green"],
        "parts": [{"name": "bolt", "count": 2}, {"name": "nut", "count": 5}],
        "note": "hi",
        "limit": "ten",
        "extra": {"x": [1, None]},
    }


def test_empty_fields_are_not_sent_and_defaults_are(tab: Tab) -> None:
    trial = tab.item("atelier", "order")
    given = trial.call(who="Ada", city="Bern")["structuredContent"]
    assert given == {"who": "Ada", "size": "small", "many": 2, "gift": True, "address": {"city": "Bern"}}


def test_an_invalid_value_shows_an_error_at_its_field(tab: Tab) -> None:
    trial = tab.item("atelier", "order")
    trial.fill(who="Ada", city="Bern")
    field = trial.item.locator('[data-name="extra"] textarea')
    field.fill("{oops")
    trial.item.get_by_role("button", name="Call", exact=True).click()
    expect(trial.item.get_by_role("alert")).to_have_text("extra must be JSON; put text in double quotes")
    expect(field).to_be_focused()
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("1")
    assert trial.call()["structuredContent"]["extra"] == 1


BEYOND, LARGEST = "9007199254740993", "18446744073709551615"
"""The first integer that JavaScript takes for another one, and the largest that the hub takes."""


def test_integers_beyond_what_javascript_holds_are_sent_and_shown_as_they_are(tab: Tab) -> None:
    """In a number field, in a JSON field, in the arguments as JSON, in the request, and in the result."""
    trial = tab.item("atelier", "order")
    trial.fill(who="Ada", city="Bern", weight=BEYOND, extra={"x": [1, -int(BEYOND)]})
    given = trial.call()
    assert given["structuredContent"]["weight"] == int(BEYOND)
    assert given["structuredContent"]["extra"] == {"x": [1, -int(BEYOND)]}
    expect(trial.item.locator(".answer")).to_contain_text(f"weight: {BEYOND}")
    trial.item.get_by_role("button", name="As JSON").click()
    raw = trial.item.get_by_label("Arguments as JSON")
    assert json.loads(raw.input_value())["weight"] == int(BEYOND)
    raw.fill(raw.input_value().replace(f'"weight": {BEYOND}', f'"weight": {LARGEST}'))
    trial.start()
    assert trial.ended()["structuredContent"]["weight"] == int(LARGEST)
    trial.item.get_by_role("button", name="As JSON").click()
    assert trial.item.locator('[data-name="weight"] input').input_value() == LARGEST


WITHOUT_SOURCE = "delete JSON.rawJSON; delete JSON.isRawJSON;"
"""Make a browser of the time before ECMAScript's access to the source text of JSON."""


def test_an_older_browser_does_not_send_a_number_that_it_would_change(tab: Tab) -> None:
    """Bad input loses nothing: 9007199254740993 must not arrive as 9007199254740992."""
    tab.context.add_init_script(WITHOUT_SOURCE)
    tab.page.goto("about:blank")
    trial = tab.item("atelier", "order")
    trial.fill(who="Ada", city="Bern", weight=BEYOND)
    call, told = trial.item.get_by_role("button", name="Call", exact=True), trial.item.get_by_role("alert")
    call.click()
    expect(told).to_have_text(f"weight: a browser cannot send {BEYOND} exactly; call the tool from a program")
    trial.fill(weight="9007199254740991", extra={"text": f'\\" {BEYOND}', "x": [1, int(BEYOND)]})
    call.click()
    expect(told).to_contain_text(f"extra: a browser cannot send {BEYOND}")
    trial.fill(extra={"text": f'\\" {BEYOND}'})
    trial.item.get_by_role("button", name="As JSON").click()
    raw = trial.item.get_by_label("Arguments as JSON")
    written = raw.input_value()
    raw.fill(written.replace("9007199254740991", f"-{BEYOND}"))
    call.click()
    expect(told).to_contain_text(f"The arguments: a browser cannot send -{BEYOND}")
    raw.fill(written)
    assert trial.call()["structuredContent"]["weight"] == 9007199254740991


def test_the_arguments_can_be_written_as_json_and_come_back_into_the_form(tab: Tab) -> None:
    trial = tab.item("atelier", "order")
    trial.fill(who="Ada", city="Bern")
    toggle = trial.item.get_by_role("button", name="As JSON")
    toggle.click()
    raw = trial.item.get_by_label("Arguments as JSON")
    assert json.loads(raw.input_value())["address"] == {"city": "Bern"}
    raw.fill('{"who": "Bob", "address": {"city": "Ulm"}, "parts": [{"name": "nut"}], "limit": 7, "size": "large"}')
    toggle.click()
    assert trial.item.locator('[data-name="who"] input').input_value() == "Bob"
    given = trial.call()["structuredContent"]
    assert given["parts"] == [{"name": "nut"}] and given["limit"] == 7 and given["size"] == "large"
    toggle.click()
    left = {"who": "Bob", "address": {"city": "Ulm"}}
    raw.fill(json.dumps(left))
    toggle.click()
    # A box has no third state to be left out in: then it says its default.
    assert trial.call()["structuredContent"] == {**left, "gift": True}


def test_a_look_at_the_json_takes_nothing_out_of_the_form(tab: Tab) -> None:
    """Also where something in it is not a value, so that there is no JSON of it."""
    trial = tab.item("atelier", "order")
    trial.fill(who="Ada", city="Bern")
    field = trial.item.locator('[data-name="extra"] textarea')
    field.fill("{oops")
    toggle = trial.item.get_by_role("button", name="As JSON")
    toggle.click()
    assert trial.item.get_by_label("Arguments as JSON").input_value() == "{}"
    toggle.click()
    assert field.input_value() == "{oops"
    field.fill("1")
    assert trial.call()["structuredContent"]["who"] == "Ada"


def test_the_server_says_what_is_wrong_with_arguments(tab: Tab) -> None:
    trial = tab.item("atelier", "order")
    trial.item.get_by_role("button", name="As JSON").click()
    trial.item.get_by_label("Arguments as JSON").fill('{"who": 7}')
    trial.choose("2026-07-28")
    trial.start()
    trial.ended("The tool reports an error")
    assert "address" in trial.shown()


def test_examples_fill_a_field(tab: Tab) -> None:
    trial = tab.item("jq", "query_text")
    trial.item.get_by_role("button", name=".name", exact=True).click()
    trial.call(text='{"name": "Ada"}')
    assert "Ada" in trial.shown()


def test_a_time_survives_json_and_an_invalid_default_breaks_no_form(tab: Tab) -> None:
    trial = tab.item("atelier", "hours")
    toggle = trial.item.get_by_role("button", name="As JSON")
    toggle.click()
    toggle.click()
    assert trial.call()["structuredContent"] == {"opens": "10:30:00Z"}
