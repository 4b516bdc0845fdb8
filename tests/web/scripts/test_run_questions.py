"""The page of a run shows the questions of its tools to the caller, and takes the answers.

Source: issue 55; TOOLSETS section 4 ("else the page").
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.hubs import Answer, Hub
from tests.scripting.asking import answered, ask, asking_hub, questions
from tests.scripting.closing import FORMS, ended, runs, words
from tests.scripting.hubs import failure, value
from tests.waiting import BOUND, until
from tests.web.browsing import BROWSER, read
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

SEAT = "import desk\nawait desk.seat(folder=folder)"
TWO = (
    "import asyncio\nimport desk\n"
    "await asyncio.gather(desk.book(folder=folder, place='A1'), desk.book(folder=folder, place='B2'))"
)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = asking_hub(tmp_path / "hub").log_in()
    yield found
    found.close()


def waiting_run(hub: Hub) -> str:
    """The id of the one run that waits for an answer."""
    (found,) = (one for one in runs(hub).heads.all() if one.waits_for_answers(runs(hub).approvals.now()))
    return str(found.id)


def asked_of(hub: Hub, run: str) -> list[dict[str, Any]]:
    """The open questions of a run, as its caller sees them."""
    headers = {"Authorization": f"Bearer {hub.token}"}
    shown: Any = hub.client.get(f"/activity/runs/{run}.json", headers=headers).json
    found: list[dict[str, Any]] = shown["asked"]
    return found


def send(hub: Hub, run: str, key: str, action: str = "accept", **fields: str) -> TestResponse:
    """The answer of the hub to the form of a question, whose fields are named by their places as `at_0`."""
    path, number = f"/activity/runs/{run}", key.rpartition(".")[2]
    named = {f"answer.{number}.{name.removeprefix('at_').replace('_', '.')}": text for name, text in fields.items()}
    form = {"csrf": csrf(hub, path), "do": "answer", "question": key, "action": action, **named}
    return hub.client.post(path, data=form, headers=BROWSER)


def outcome(hub: Hub, folder: Path, code: str) -> Answer:
    """The answer to the same call again, once the run has ended."""
    until(lambda: all(one.ended for one in runs(hub).heads.all()), "the end of the run")
    return ask(hub, folder, code, capabilities={})


def test_a_client_without_forms_gets_the_page_where_its_user_answers_and_the_run_goes_on(
    hub: Hub, tmp_path: Path
) -> None:
    said = failure(ask(hub, tmp_path, SEAT, capabilities={}))
    run = waiting_run(hub)
    assert f"/activity/runs/{run}" in said
    page = read(hub, f"/activity/runs/{run}")
    text = " ".join(Reader(page).text.split())
    assert "A tool asks you" in text and "desk.seat asks in line 2: Which seat?" in text and "Who required" in text
    assert "<script" not in page[page.index('<div class="question"') : page.index("</form>")]
    (question,) = asked_of(hub, run)
    assert (question["name"], question["line"], question["message"]) == ("desk.seat", 2, "Which seat?")
    answer = send(hub, run, question["key"], at_0="Ann", at_1="4", at_2="false", at_3_1="on")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/activity/runs/{run}")
    expected = "[('meals', ['cake']), ('name', 'Ann'), ('row', 4), ('window', False)]"
    assert value(outcome(hub, tmp_path, SEAT)) == expected and words(tmp_path, "seats") == ["accept"]
    assert "asks in line" not in Reader(read(hub, f"/activity/runs/{run}")).text


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_question_may_be_declined_or_closed_whatever_its_fields_have(hub: Hub, tmp_path: Path, action: str) -> None:
    failure(ask(hub, tmp_path, SEAT, capabilities={}))
    run = waiting_run(hub)
    assert send(hub, run, asked_of(hub, run)[0]["key"], action, at_1="many").status_code == 303
    assert value(outcome(hub, tmp_path, SEAT)) == "[]" and words(tmp_path, "seats") == [action]


def test_a_wrong_answer_shows_the_form_again_with_what_was_typed(hub: Hub, tmp_path: Path) -> None:
    failure(ask(hub, tmp_path, SEAT, capabilities={}))
    run = waiting_run(hub)
    (question,) = asked_of(hub, run)
    answer = send(hub, run, question["key"], at_0="<b>A</b>", at_1="12", at_2="false", at_3_0="on")
    page = answer.get_data(as_text=True)
    assert answer.status_code == 400 and "12 is greater than the maximum of 9" in Reader(page).text
    number = question["key"].rpartition(".")[2]
    assert 'value="&lt;b&gt;A&lt;/b&gt;"' in page and 'value="12"' in page
    assert '<option value="false" selected>' in page and f'name="answer.{number}.3.0" checked' in page
    assert f'id="answer.{number}.1" name="answer.{number}.1" aria-invalid="true"' in page
    assert asked_of(hub, run) == [question] and words(tmp_path, "seats") == []
    missing = send(hub, run, question["key"], at_0="Ann").get_data(as_text=True)
    assert "Give a value here." in Reader(missing).text
    assert send(hub, run, question["key"], at_0="Ann", at_1="9").status_code == 303
    assert value(outcome(hub, tmp_path, SEAT)) == "[('name', 'Ann'), ('row', 9)]"


def test_the_run_waits_until_each_of_its_questions_has_an_answer(hub: Hub, tmp_path: Path) -> None:
    said = failure(ask(hub, tmp_path, TWO, capabilities={}))
    assert "2 questions of tools have no answer yet" in said
    run = waiting_run(hub)
    first, second = asked_of(hub, run)
    assert send(hub, run, second["key"], at_0="Ben").status_code == 303
    assert asked_of(hub, run) == [first] and words(tmp_path, "booked") == []
    assert "1 question of a tool has no answer yet" in failure(ask(hub, tmp_path, TWO, capabilities={}))
    again = send(hub, run, second["key"], at_0="Eve")
    assert again.status_code == 400 and "not open any more" in again.get_data(as_text=True)
    client = ask(hub, tmp_path, TWO)
    assert list(questions(client).values()) == ["desk.book (line 3 of the script) asks: Who takes A1?"]
    assert send(hub, run, first["key"], at_0="Ann").status_code == 303
    assert value(outcome(hub, tmp_path, TWO)) == ["A1 for Ann", "B2 for Ben"]


def test_an_answer_on_the_page_comes_before_that_of_a_client_which_was_asked_too(hub: Hub, tmp_path: Path) -> None:
    client = ask(hub, tmp_path, TWO)
    run = waiting_run(hub)
    first, _ = asked_of(hub, run)
    assert send(hub, run, first["key"], at_0="Page").status_code == 303
    assert value(ask(hub, tmp_path, TWO, **answered(client, "Client", "Ben"))) == ["A1 for Page", "B2 for Ben"]


def test_an_answer_of_the_client_comes_before_that_of_the_page(hub: Hub, tmp_path: Path) -> None:
    client = ask(hub, tmp_path)
    run = waiting_run(hub)
    (question,) = asked_of(hub, run)
    assert value(ask(hub, tmp_path, **answered(client, "Client"))) == "A1 for Client"
    late = send(hub, run, question["key"], at_0="Page")
    assert late.status_code == 400 and "not open any more" in late.get_data(as_text=True)
    assert words(tmp_path, "booked") == ["A1:Client"]


def test_of_answers_at_the_same_time_exactly_one_counts(hub: Hub, tmp_path: Path) -> None:
    failure(ask(hub, tmp_path, capabilities={}))
    run = waiting_run(hub)
    (key,) = (one["key"] for one in asked_of(hub, run))
    scripts = hub.app.parts.dispatcher.services.scripts
    begin, taken = threading.Barrier(8), []

    def answer(name: str) -> None:
        begin.wait(BOUND)
        if scripts.answer(run, key, {"action": "accept", "content": {"name": name}}):
            taken.append(name)

    threads = [threading.Thread(target=answer, args=(f"n{number}",)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(BOUND)
    assert len(taken) == 1 and ended(hub, run).value == f"A1 for {taken[0]}"
    assert words(tmp_path, "booked") == [f"A1:{taken[0]}"]


def test_a_program_answers_with_json_and_gets_the_problems_as_json(hub: Hub, tmp_path: Path) -> None:
    failure(ask(hub, tmp_path, SEAT, capabilities={}))
    run = waiting_run(hub)
    (question,) = asked_of(hub, run)
    assert question["schema"]["required"] == ["name", "row"]
    headers = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    form = {"do": "answer", "question": question["key"], "action": "accept"}
    wrong = hub.client.post(f"/activity/runs/{run}", data={**form, "content": '{"name": "Ann"}'}, headers=headers)
    assert wrong.status_code == 400 and "row" in wrong.text
    unknown = hub.client.post(f"/activity/runs/{run}", data={**form, "action": "ok"}, headers=headers)
    assert unknown.status_code == 400 and "action must be accept, decline or cancel" in unknown.text
    content = '{"name": "Ann", "row": 1}'
    good: Any = hub.client.post(f"/activity/runs/{run}", data={**form, "content": content}, headers=headers)
    assert good.status_code == 200 and good.json["asked"] == []
    assert value(outcome(hub, tmp_path, SEAT)) == "[('name', 'Ann'), ('row', 1)]"


def test_a_question_for_a_url_has_the_link(hub: Hub, tmp_path: Path) -> None:
    """A client that shows both kinds asked for the run; its user may answer on the page too."""
    code = "import desk\nawait desk.visit()"
    asked = ask(hub, tmp_path, code, capabilities={"elicitation": {**FORMS["elicitation"], "url": {}}})
    assert len(questions(asked)) == 1
    run = waiting_run(hub)
    (question,) = asked_of(hub, run)
    assert (question["url"], question["schema"]) == ("https://pay.example/1", None)
    assert 'href="https://pay.example/1" rel="noreferrer noopener"' in read(hub, f"/activity/runs/{run}")
    assert send(hub, run, question["key"]).status_code == 303
    assert ended(hub, run).value == "accept"
