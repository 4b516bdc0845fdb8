"""Variables are made, changed and removed on their pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hubs import Hub
from tests.web.browsing import BROWSER, read, read_json
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub whose variables these tests change."""
    found = Hub(tmp_path_factory.mktemp("variables")).log_in()
    yield found
    found.close()


def post(hub: Hub, path: str, **fields: str) -> Any:
    """Send the form of a page."""
    return hub.client.post(path, data={"csrf": csrf(hub, path), **fields}, headers=BROWSER)


def test_a_variable_is_made_changed_and_removed(hub: Hub) -> None:
    """Issue 17, item 5: variables are edited on the page."""
    made = post(hub, "/variables", name="greeting", source="hello")
    assert (made.status_code, made.headers["Location"]) == (303, "/variables/greeting")
    first = read_json(hub.client.get("/variables/greeting.json"))
    assert first["value"] == "hello"
    changed = post(hub, "/variables/greeting", source="good day", base=first["value_cid"], why="politer")
    assert changed.status_code == 303
    second = read_json(hub.client.get("/variables/greeting.json"))
    assert (second["value"], second["past"][0]["why"]) == ("good day", "politer")
    gone = post(hub, "/variables/greeting", do="remove", base=second["value_cid"])
    assert (gone.status_code, gone.headers["Location"]) == (303, "/variables")
    assert hub.client.get("/variables/greeting.json").status_code == 404


@pytest.mark.parametrize("name", ["access", "listing"])
def test_a_variable_of_the_hub_without_a_value_leads_to_the_form_that_makes_it(hub: Hub, name: str) -> None:
    answer = hub.client.get(f"/variables/{name}", headers=BROWSER)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/variables?name={name}#new")
    form = read(hub, answer.headers["Location"].partition("#")[0]).partition('id="new"')[2]
    assert f'<input name="name" value="{name}"' in form
    assert hub.client.get(f"/variables/{name}.json").status_code == 404


def test_another_variable_without_a_value_is_not_found(hub: Hub) -> None:
    assert hub.client.get("/variables/nothing", headers=BROWSER).status_code == 404


def test_a_form_that_is_too_old_keeps_its_text_and_changes_nothing(hub: Hub) -> None:
    post(hub, "/variables", name="shared", source="one")
    old = read_json(hub.client.get("/variables/shared.json"))["value_cid"]
    post(hub, "/variables/shared", source="two", base=old)
    late = post(hub, "/variables/shared", source="my long text", base=old)
    assert late.status_code == 409
    assert "my long text" in late.get_data(as_text=True)
    assert read_json(hub.client.get("/variables/shared.json"))["value"] == "two"


@pytest.mark.parametrize(("name", "reason"), [("a/b", "letters, digits"), ("mcps", "there is a variable mcps already")])
def test_a_name_that_cannot_be_new_is_refused(hub: Hub, name: str, reason: str) -> None:
    answer = post(hub, "/variables", name=name, source="{}")
    assert answer.status_code == 400
    assert reason.lower() in Reader(answer.get_data(as_text=True)).text.lower()


def test_a_configuration_that_cannot_be_read_is_refused_with_its_text_kept(hub: Hub) -> None:
    base = read_json(hub.client.get("/variables/mcps.json"))["value_cid"]
    answer = post(hub, "/variables/mcps", source="{not json", base=base)
    assert answer.status_code == 400 and "{not json" in answer.get_data(as_text=True)
    assert read_json(hub.client.get("/variables/mcps.json"))["value_cid"] == base


def test_a_pattern_of_the_listing_without_a_match_is_shown_with_the_nearest_name(hub: Hub) -> None:
    """Issue 54, item 3: a misspelt pattern left 0 tools, and no page said so."""
    assert post(hub, "/variables", name="listing", source='{"exclude": ["jq.kays"]}').status_code == 303
    assert "no tool matches jq.kays; did you mean jq.keys" in Reader(read(hub, "/variables/listing")).text
    (problem,) = read_json(hub.client.get("/variables/listing.json"))["problems"]
    assert problem.startswith("listing.exclude: no tool matches jq.kays")


def test_a_reader_who_is_not_the_operator_gets_a_link_to_log_in_and_no_form(hub: Hub) -> None:
    stranger = hub.app.test_client()
    html = stranger.get("/variables/mcps", headers=BROWSER).get_data(as_text=True)
    assert '<a href="/login">Log in</a>' in html and "<textarea" not in html
    answer = stranger.post("/variables/mcps", data={"source": "{}"}, headers=BROWSER)
    assert answer.status_code in (401, 403)
    assert "Edit this variable" in read(hub, "/variables/mcps")
