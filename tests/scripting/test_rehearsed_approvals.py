"""The approval of a rehearsal lets exactly its calls through: one question before anything runs, each call once.

Source: issue 55, item 4; TOOLSETS section 4 (rehearsal).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Answer, Hub
from tests.scripting.closing import FORMS, PLAIN, answers_to, close_issues, closing_hub, decide, waiting, words
from tests.scripting.hubs import failure, value
from tests.web.browsing import BROWSER

TWO_EQUAL = """import asyncio
import issues

await asyncio.gather(issues.close(folder=folder, number=7), issues.close(folder=folder, number=7))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = closing_hub(tmp_path_factory.mktemp("rehearsed"))
    yield found
    found.close()


def rehearse(hub: Hub, folder: Path, count: int = 3, code: str = PLAIN, **more: Any) -> Answer:
    """The answer to a rehearsal."""
    return close_issues(hub, folder, count, code=code, rehearse=True, **more)


def run(hub: Hub, folder: Path, count: int = 3, code: str = PLAIN, **more: Any) -> Answer:
    """The answer to the script."""
    return close_issues(hub, folder, count, code=code, **more)


def states(rehearsed: Answer) -> list[str]:
    """The states of the approvals of a rehearsal, in the order of its calls."""
    assert not rehearsed.result["isError"], rehearsed.text
    return [one["approval"] for one in rehearsed.result["structuredContent"]["rehearsed"]]


def question(hub: Hub, folder: Path) -> str:
    """The id of the one question about calls in a folder that waits."""
    (id,) = {one["question"] for one in waiting(hub) if str(folder) in one["arguments"]}
    return str(id)


def test_what_the_page_approves_runs_once_without_another_question(hub: Hub, tmp_path: Path) -> None:
    """55.4"""
    rehearsed = rehearse(hub, tmp_path)
    assert states(rehearsed) == ["waiting"] * 3 and "3 calls need an approval" in rehearsed.text
    assert {one["rehearsal"] for one in waiting(hub)} == {True} and words(tmp_path) == []
    decide(hub, question(hub, tmp_path))
    assert value(run(hub, tmp_path)) == ["closed 1", "closed 2", "closed 3"]
    assert sorted(words(tmp_path)) == ["1", "2", "3"] and waiting(hub) == []
    assert "3 calls of it need an approval" in failure(run(hub, tmp_path)), "the second run asks"
    decide(hub, question(hub, tmp_path), "refuse")


def test_a_client_is_asked_at_the_rehearsal_by_one_form_and_a_refused_call_asks_again(hub: Hub, tmp_path: Path) -> None:
    """55.4"""
    asked = rehearse(hub, tmp_path, capabilities=FORMS)
    ((_, form),) = asked.result["inputRequests"].items()
    assert "these 3 calls of issues.close" in form["params"]["message"]
    rehearsed = rehearse(hub, tmp_path, capabilities=FORMS, **answers_to(asked, content={"call_2": False}))
    assert states(rehearsed) == ["approved", "refused", "approved"] and words(tmp_path) == []
    again = run(hub, tmp_path, capabilities=FORMS)
    ((_, form),) = again.result["inputRequests"].items()
    assert '"number":2' in form["params"]["message"] and sorted(words(tmp_path)) == ["1", "3"]
    assert value(run(hub, tmp_path, capabilities=FORMS, **answers_to(again))) == ["closed 1", "closed 2", "closed 3"]
    assert sorted(words(tmp_path)) == ["1", "2", "3"]


def test_a_decision_of_the_page_while_the_client_is_asked_stays(hub: Hub, tmp_path: Path) -> None:
    asked = rehearse(hub, tmp_path, capabilities=FORMS)
    decide(hub, question(hub, tmp_path), "refuse")
    rehearsed = rehearse(hub, tmp_path, capabilities=FORMS, **answers_to(asked))
    assert states(rehearsed) == ["refused"] * 3 and waiting(hub) == []


def test_two_equal_calls_need_two_approvals(hub: Hub, tmp_path: Path) -> None:
    assert states(rehearse(hub, tmp_path, code=TWO_EQUAL)) == ["waiting"] * 2
    decide(hub, question(hub, tmp_path), "ticked", call_1="on")
    assert "1 call of it needs an approval" in failure(run(hub, tmp_path, code=TWO_EQUAL))
    assert words(tmp_path) == ["7"]
    decide(hub, question(hub, tmp_path), "refuse")


def test_a_second_rehearsal_has_the_same_question_and_its_decision(hub: Hub, tmp_path: Path) -> None:
    rehearse(hub, tmp_path)
    first = question(hub, tmp_path)
    assert states(rehearse(hub, tmp_path)) == ["waiting"] * 3 and question(hub, tmp_path) == first
    decide(hub, first)
    assert states(rehearse(hub, tmp_path)) == ["approved"] * 3


def test_calls_that_need_no_approval_have_none_and_run_in_any_run(hub: Hub, tmp_path: Path) -> None:
    code = "import issues\nawait issues.find(folder=folder, count=count)"
    rehearsed = rehearse(hub, tmp_path, code=code)
    assert ["approval" in one for one in rehearsed.result["structuredContent"]["rehearsed"]] == [False]
    assert "need an approval" not in rehearsed.text and value(run(hub, tmp_path, code=code)) == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_the_page_says_that_a_question_comes_from_a_rehearsal(hub: Hub, tmp_path: Path, count: int) -> None:
    rehearsed = rehearse(hub, tmp_path, count)
    headers = BROWSER | {"Authorization": f"Bearer {hub.token}"}
    page = hub.client.get("/approvals", headers=headers).text
    link = f'<a href="/activity/runs/{rehearsed.result["structuredContent"]["run"]}">rehearsal of a script</a>'
    assert link in page and "Nothing runs now" in re.sub(r"<[^>]+>", " ", page)
    decide(hub, question(hub, tmp_path), "refuse")
