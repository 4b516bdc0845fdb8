"""The page of a run of a script: its lines with their calls, who may see it, and its repetition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS
from patchbay.activity.records import Filter, Page
from patchbay.activity.script_runs import RESUMED, find_run
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.kinds.toolset.sets import write
from tests.scripting.closing import close_issues, closing_hub, ended, waiting
from tests.scripting.closing import words as words_of
from tests.scripting.hubs import GIT, SCRIPTED, failure, script, value
from tests.waiting import until
from tests.web.browsing import BROWSER, read, read_json
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

CODE = 'import git\n\nfound = await git.log(count=2)\nawait git.close(number=int(found[0]["sha"]))\n'


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, SCRIPTED, activity_contents="keep").log_in()
    yield found
    found.close()


def newest_run(hub: Hub) -> str:
    (record,) = hub.activity.recent(Filter(tool="run_script"), 1).records
    return str(record.run)


def repeat(hub: Hub, run: str) -> str:
    """The text of the page after the run was repeated."""
    path = f"/activity/runs/{run}"
    answer = hub.client.post(path, data={"csrf": csrf(hub, path)}, headers=BROWSER)
    assert answer.status_code == 200, answer.get_data(as_text=True)[:2000]
    return Reader(answer.get_data(as_text=True)).text


def test_a_run_has_its_script_with_its_calls_beside_their_lines(hub: Hub) -> None:
    """Issue 55, item 6."""
    assert value(script(hub, "git", CODE)) == "closed 0"
    run = newest_run(hub)
    shown = read_json(hub.client.get(f"/activity/runs/{run}.json"))
    assert [(one["name"], one["line"], one["outcome"]) for one in shown["calls"]] == [
        ("git.log", 3, "ok"),
        ("git.close", 4, "ok"),
    ]
    page = read(hub, f"/activity/runs/{run}")
    assert "found = await git.log(count=2)" in Reader(page).text and "2 calls" in Reader(page).text
    for one in shown["calls"]:
        assert f'href="/activity/{one["id"]}"' in page
        assert f'href="/activity/runs/{run}"' in read(hub, f"/activity/{one['id']}")
    assert f'href="/activity/runs/{run}"' in read(hub, f"/activity/{shown['record']}")


def test_each_call_has_its_arguments_its_result_and_its_duration_beside_its_line(hub: Hub) -> None:
    """Issue 55, item 6."""
    value(script(hub, "git", CODE))
    shown = read(hub, f"/activity/runs/{newest_run(hub)}")
    lines = shown[shown.index('<ol class="script-lines">') : shown.index("</ol>")].split("<li")
    (line,) = [one for one in lines if "git.close(number=0)" in Reader(one).text]
    words = " ".join(Reader(line).text.split())
    assert "succeeded" in words and " ms" in words and '{ "number": 0 }' in words and "Result" in words
    assert "closed 0" in words


def test_many_calls_of_one_line_are_one_row_and_a_failed_one_is_not_folded(hub: Hub) -> None:
    code = (
        "import git\nfor number in range(10, 18):\n    try:\n        await git.close(number=number)\n"
        "    except RuntimeError:\n        pass\n"
    )
    script(hub, "git", code)
    words = " ".join(Reader(read(hub, f"/activity/runs/{newest_run(hub)}")).text.split())
    assert "7 other calls succeeded" in words
    assert words.index("git.close(number=13)") < words.index("7 other calls succeeded")


def test_what_a_script_printed_and_its_value_are_apart_and_a_failure_is_a_sentence(hub: Hub) -> None:
    script(hub, "git", 'print("hello")\n{"n": [1]}')
    words = " ".join(Reader(read(hub, f"/activity/runs/{newest_run(hub)}")).text.split())
    assert "Result hello" in words and 'Value:{ "n": [ 1 ] }' in words and "The whole answer as JSON" in words
    script(hub, "git", "import git\nawait git.close(number=13)")
    words = " ".join(Reader(read(hub, f"/activity/runs/{newest_run(hub)}")).text.split())
    assert "the script failed" in words and "line 2: RuntimeError: git.close: ValueError: unlucky 1 call" in words


def test_a_rehearsal_is_called_one_and_has_the_calls_that_were_not_made(hub: Hub) -> None:
    """Issue 55, item 4."""
    arguments = {"code": "import git\nawait git.close(number=4)", "rehearse": True}
    hub.modern("git", "tools/call", {"name": "run_script", "arguments": arguments})
    words = " ".join(Reader(read(hub, f"/activity/runs/{newest_run(hub)}")).text.split())
    assert "rehearsal" in words and "git.close(number=4) was not made" in words
    assert "Calls that were not made" in words and '{ "number": 4 }not needed' in words


def test_calls_that_wait_for_the_operator_are_decided_on_the_page_of_their_run(tmp_path: Path) -> None:
    """55.7: all of them are one question, with the exact arguments, and stand beside their line."""
    found = closing_hub(tmp_path).log_in()
    try:
        close_issues(found, tmp_path)
        (run,) = {one["run"] for one in waiting(found)}
        path = f"/activity/runs/{run}"
        page = read(found, path)
        words = " ".join(Reader(page).text.split())
        assert "Approve all 3" in words and "3 calls of issues.close, since" in words
        question = waiting(found)[0]["question"]
        form = {"csrf": csrf(found, path), "id": question, "do": "approve"}
        assert found.client.post("/approvals", data=form, headers=BROWSER).status_code == 303
        ended(found, run)
        assert sorted(words_of(tmp_path)) == ["1", "2", "3"] and "Approve all" not in Reader(read(found, path)).text
    finally:
        found.close()


def test_a_run_without_a_decision_in_time_says_so(tmp_path: Path) -> None:
    found = closing_hub(tmp_path).log_in()
    try:
        close_issues(found, tmp_path)
        (run,) = {one["run"] for one in waiting(found)}
        approvals = found.app.parts.dispatcher.services.approvals
        later = approvals.now() + APPROVAL_SECONDS + 1
        approvals.now = lambda: later
        assert "There was no decision, answer or account in time." in Reader(read(found, f"/activity/runs/{run}")).text
    finally:
        found.close()


def test_the_run_of_a_saved_script_shows_the_script_of_its_version(hub: Hub) -> None:
    saved = "import release\n\n\nasync def one() -> str:\n    return await release.shut(issue=1)\n"
    fields = json.loads(SCRIPTED["release.json"])
    write(hub, "release.json", json.dumps({**fields, "tools": {**fields["tools"], "one": {"script": saved}}}))
    assert hub.call("release", "one").text == "closed 1"
    (record,) = hub.activity.recent(Filter(tool="one"), 1).records
    write(hub, "release.json", SCRIPTED["release.json"])
    assert "return await release.shut(issue=1)" in Reader(read(hub, f"/activity/runs/{record.run}")).text
    assert "The repeated run made the same calls and has the same value." in repeat(hub, record.run)


def test_a_repeated_run_makes_no_call(hub: Hub) -> None:
    """Issue 55, item 4."""
    script(hub, "git", CODE)
    before = len(hub.activity.recent(Filter(tool="close"), 1000).records)
    assert "The repeated run made the same calls and has the same value." in repeat(hub, newest_run(hub))
    assert len(hub.activity.recent(Filter(tool="close"), 1000).records) == before


def test_a_failed_run_fails_again_in_the_same_way(hub: Hub) -> None:
    assert "unlucky" in failure(script(hub, "git", "import git\nawait git.close(number=13)"))
    assert "The repeated run made the same calls and has the same value." in repeat(hub, newest_run(hub))


def test_an_unknown_run_and_a_wrong_id_are_not_there(hub: Hub) -> None:
    for id in ("0123456789abcdef", "x", "..%2f..", "1-1"):
        assert hub.client.get(f"/activity/runs/{id}", headers=BROWSER).status_code == 404


def test_the_text_of_a_script_and_of_its_calls_is_text(hub: Hub) -> None:
    evil = "<script>alert(1)</script>"
    script(hub, "git", f'import git\nawait git.note(what="{evil}")  # {evil}\nprint("{evil}")\n"{evil}"')
    page = read(hub, f"/activity/runs/{newest_run(hub)}")
    assert evil not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_run_of_somebody_else_is_not_there_and_ones_own_is(tmp_path: Path) -> None:
    found = team_hub(tmp_path, SCRIPTED, activity_contents="keep")
    try:
        set_grants(found, {"grants": [{"to": ["key:ann", "key:ben"], "may": ["call", "see"], "on": ["git"]}]})
        ann, ben = new_key(found, "ann"), new_key(found, "ben")
        assert value(script(found, "git", CODE, headers=ann)) == "closed 0"
        run = newest_run(found)
        own = found.client.get(f"/activity/runs/{run}.json", headers=ann)
        other = found.client.get(f"/activity/runs/{run}.json", headers=ben)
        nobody = found.client.get("/activity/runs/0123456789abcdef.json", headers=ben)
        assert own.status_code == 200 and len(own.get_json()["calls"]) == 2
        assert (other.status_code, nobody.status_code) == (404, 404)
        assert other.text.replace(run, "") == nobody.text.replace("0123456789abcdef", "")
        assert found.client.post(f"/activity/runs/{run}", headers=ann).status_code in (401, 403, 415)
    finally:
        found.close()


@pytest.mark.parametrize("rights", [["call"], ["call", "see"]])
def test_a_caller_sees_the_source_of_a_saved_script_with_the_right_alone_and_no_contents(
    tmp_path: Path, rights: list[str]
) -> None:
    """The calls of a saved script have rights of its toolset, so their results may be more than the caller may see."""
    saved = (
        "import release\n\n\nasync def one() -> str:\n"
        '    """Close one."""\n    await release.shut(issue=1)\n    return "done"\n'
    )
    fields = json.loads(SCRIPTED["release.json"])
    files = {"release.json": json.dumps({**fields, "tools": {**fields["tools"], "one": {"script": saved}}})}
    found = team_hub(tmp_path, {**SCRIPTED, **files}, activity_contents="keep")
    try:
        set_grants(found, {"grants": [{"to": ["key:ann"], "may": rights, "on": ["release"]}]})
        ann = new_key(found, "ann")
        called = found.modern("release", "tools/call", {"name": "one", "arguments": {}}, headers=ann)
        assert called.result["content"][0]["text"] == "done"
        (record,) = found.activity.recent(Filter(tool="one"), 1).records
        path = f"/activity/runs/{record.run}"
        page = found.client.get(path, headers={**ann, "Accept": "text/html"})
        rows = read_json(found.client.get(f"{path}.json", headers=ann))["calls"]
        assert page.status_code == 200 and ("await release.shut" in page.text) == ("see" in rights)
        assert "closed 1" not in page.text and [one["answer"] for one in rows] == [None] == [
            one["arguments"] for one in rows
        ]
        whole = found.client.get(path, headers={"Authorization": f"Bearer {found.token}", "Accept": "text/html"})
        assert "await release.shut" in whole.text and "closed 1" in whole.text
    finally:
        found.close()


def test_what_is_not_recorded_is_not_shown_and_not_repeated(tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"isolation": "inline", "listing": {"scripts": "also"}, "activity": "none"}
    found = Hub(tmp_path, {"git.py": GIT, "git.mcp.json": json.dumps(quiet)}, activity_contents="keep").log_in()
    try:
        value(script(found, "git", CODE))
        run = newest_run(found)
        page = Reader(read(found, f"/activity/runs/{run}")).text
        assert "git.log(count=2)" not in page and "Not recorded" in page
        assert "has no script or no inputs" in repeat(found, run)
    finally:
        found.close()


def test_a_call_that_has_not_ended_is_shown_with_its_line(hub: Hub) -> None:
    code = "import git\nawait git.close(number=1)\nawait git.meet(name='a')"
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(script, hub, "git", code)
        until(lambda: any(one.recorded_name == "meet" for one in hub.activity.running))
        (record,) = hub.activity.recent(Filter(tool="close"), 1).records
        page = " ".join(Reader(read(hub, f"/activity/runs/{record.run}")).text.split())
        others = [pool.submit(hub.call, "git", "meet", {"name": name}) for name in "bc"]
        assert value(running.result()) == "a" and all(one.result().text in "bc" for one in others)
    assert "not ended yet" in page and "Line 3: git.meet, since" in page


def test_a_run_has_a_page_before_any_of_its_calls_has_ended(hub: Hub) -> None:
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(script, hub, "git", "import git\nawait git.meet(name='a')")
        until(lambda: any(one.recorded_name == "meet" for one in hub.activity.running))
        (run,) = {one.present_run for one in hub.activity.running if one.recorded_name == "meet"}
        page = " ".join(Reader(read(hub, f"/activity/runs/{run}")).text.split())
        others = [pool.submit(hub.call, "git", "meet", {"name": name}) for name in "bc"]
        assert value(running.result()) == "a" and all(one.result().text in "bc" for one in others)
    assert "Line 2: git.meet, since" in page and "No call has ended yet." in page


def test_a_running_script_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    found = team_hub(tmp_path, SCRIPTED)
    try:
        set_grants(found, {"grants": [{"to": ["key:ann", "key:ben"], "may": ["call", "see"], "on": ["git"]}]})
        ann, ben = new_key(found, "ann"), new_key(found, "ben")
        with ThreadPoolExecutor(3) as pool:
            running = pool.submit(script, found, "git", "import git\nawait git.meet(name='a')", None, ann)
            until(lambda: any(one.recorded_name == "meet" for one in found.activity.running))
            (run,) = {one.present_run for one in found.activity.running if one.recorded_name == "meet"}
            codes = [
                found.client.get(f"/activity/runs/{run}.json", headers=who).status_code for who in (ann, ben, BROWSER)
            ]
            others = [
                pool.submit(script, found, "git", f"import git\nawait git.meet(name='{n}')", None, ann) for n in "bc"
            ]
            assert value(running.result()) == "a" and {value(one.result()) for one in others} == {"b", "c"}
        assert codes[:2] == [200, 404] and codes[2] != 200
    finally:
        found.close()


def test_the_lines_of_a_script_are_those_that_the_interpreter_counts(hub: Hub) -> None:
    value(script(hub, "git", 'import git\ntext = "a\u2028b"\nfound = await git.log(count=1)\nlen(found)\n'))
    page = read(hub, f"/activity/runs/{newest_run(hub)}")
    assert '<li class="calls"><code>found = await git.log(count=1)</code>' in page


def test_a_run_beyond_the_searched_records_names_that_limit(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    script(hub, "git", CODE)
    run = newest_run(hub)
    hub.call("git", "log", {})
    hub.call("git", "log", {})
    monkeypatch.setattr("patchbay.activity.records.SEARCHED", 1)
    monkeypatch.setattr("patchbay.activity.script_runs.MAX_PAGES", 1)
    answer = hub.client.get(f"/activity/runs/{run}.json")
    assert answer.status_code == 404 and "which is as far as a search for a run goes" in answer.text


def test_the_search_for_a_run_that_went_on_reaches_back_to_the_calls_before_it_waited(hub: Hub) -> None:
    script(hub, "git", CODE)
    (record,) = hub.activity.recent(Filter(tool="run_script"), 1).records
    since: list[float] = []

    class Searched:
        """Has one record of a run that went on, and then a page without any."""

        def recent(self, wanted: Filter, limit: int, before: str | None) -> Page:
            since.append(wanted.since)
            return Page([replace(record, way=RESUMED)], "next") if before is None else Page([], None)

    found: Any = Searched()
    assert find_run(found, record.run) is not None
    assert since == [0.0, record.at - 2 * APPROVAL_SECONDS]
