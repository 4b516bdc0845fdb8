"""The tab *Script* of a server: a script is tried with forms alone, beside the functions that it may call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activity.records import Filter
from tests.hubs import Hub
from tests.scripting.closing import FILES
from tests.scripting.hubs import SCRIPTED
from tests.web.browsing import BROWSER, links, read, read_json, set_variable
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

PAGE = "/servers/git/script"
ALL = "/toolsets/mcp/script"
CALLS = ("issues.find(folder='/a')", "issues.close(folder='/a', number=1)")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, SCRIPTED | {"plain.py": "def one() -> int:\n    return 1\n"}).log_in()
    yield found
    found.close()


def post(hub: Hub, status: int = 200, **fields: str) -> str:
    answer = hub.client.post(PAGE, data={"csrf": csrf(hub, PAGE), **fields}, headers=BROWSER)
    assert answer.status_code == status, answer.text[:2000]
    return answer.text


def test_a_script_is_tried_and_leads_to_its_run(hub: Hub) -> None:
    """Issue 55, item 6."""
    assert PAGE in links(read(hub, "/servers/git"))
    assert "async def log(*, count: int = 20" in Reader(read(hub, PAGE)).text
    code = "import git\nprint('looking')\nlen(await git.log(count=most))"
    page = post(hub, code=code, inputs="most=3", action="run")
    shown = " ".join(Reader(page).text.split())
    assert "looking Value:3 " in shown and "git.log3" in shown
    (record,) = hub.activity.recent(Filter(tool="run_script"), 1).records
    assert record.way == "page" and f"/activity/runs/{record.run}" in links(page)
    assert "len(await git.log(count=most))" in page


def test_a_failure_keeps_the_text_and_names_the_line(hub: Hub) -> None:
    page = post(hub, code="import git\nawait git.close(number='x')", action="run")
    assert "It failed" in Reader(page).text and "line 2: " in Reader(page).text and "number='x'" in Reader(page).text
    wrong = post(hub, 400, code="1", inputs="{", action="run")
    assert "Expected a JSON object, or NAME=VALUE on each line" in Reader(wrong).text


def test_functions_are_found_by_words_and_nothing_runs(hub: Hub) -> None:
    page = Reader(post(hub, code="import git\nawait git.close(number=1)", find="commits", action="find")).text
    assert "async def log(" in page and "async def close(" not in page
    assert not hub.activity.recent(Filter(tool="close"), 1).records


def test_a_server_without_scripts_says_how_it_gets_them(hub: Hub) -> None:
    assert "/servers/plain/script" not in links(read(hub, "/servers/plain"))
    assert '"listing": {"scripts": "also"}' in Reader(read(hub, "/servers/plain/script")).text
    assert read_json(hub.client.get("/servers/plain/script.json"))["functions"] == ""


def test_a_script_is_tried_on_the_tools_of_all_servers(tmp_path: Path) -> None:
    """Issue 55: the endpoint /mcp has the same field as a server."""
    hub = Hub(tmp_path, SCRIPTED).log_in()
    try:
        set_variable(hub, "listing", b'{"scripts": "also"}', "scripts at /mcp")
        hub.catalogue.refresh()
        assert ALL in links(read(hub, "/mcp")) and ALL in links(read(hub, "/toolsets/mcp"))
        shown = read(hub, ALL)
        assert "# import git" in Reader(shown).text and "# import release" in Reader(shown).text
        code = "import git\nimport release\nlen(await git.log(count=most)) + len(await release.history(count=1))"
        fields = {"csrf": csrf(hub, ALL), "code": code, "inputs": "most=3", "action": "run"}
        answer = hub.client.post(ALL, data=fields, headers=BROWSER)
        assert answer.status_code == 200 and "Value:4 " in " ".join(Reader(answer.text).text.split())
        (record,) = hub.activity.recent(Filter(tool="run_script"), 1).records
        assert f"/activity/runs/{record.run}" in links(answer.text) and record.server == "patchbay"
        assert "release.history" in read(hub, f"/activity/runs/{record.run}")
    finally:
        hub.close()


def test_the_page_of_all_servers_says_how_it_gets_scripts(hub: Hub) -> None:
    shown = read(hub, ALL)
    assert 'The address /mcp runs no scripts: Write "scripts": "also" into the variable listing.' in Reader(shown).text
    assert "/variables/listing" in links(shown) and "<textarea" not in shown
    assert 'Write "scripts": "also" into the variable listing.' in Reader(read(hub, "/mcp")).text
    found = read_json(hub.client.get(f"{ALL}.json"))
    assert found["server"] is None and found["why"] and found["functions"] == ""


def test_a_script_with_markup_is_text(hub: Hub) -> None:
    evil = "</textarea><script>alert(1)</script>"
    page = post(hub, code=f"print('''{evil}''')\n'''{evil}'''", action="run")
    assert evil not in page and "&lt;script&gt;" in page


def test_a_rehearsal_shows_which_calls_wait_for_an_approval(tmp_path: Path) -> None:
    """55.4"""
    found = Hub(tmp_path, FILES).log_in()
    try:
        page = "/servers/issues/script"
        code = f"import asyncio\nimport issues\nawait asyncio.gather({', '.join(CALLS)})"
        fields = {"csrf": csrf(found, page), "code": code, "action": "rehearse"}
        text = found.client.post(page, data=fields, headers=BROWSER).text
        assert "<td>waiting</td>" in text and "<td>not needed</td>" in text
        assert "/approvals" in links(text) and "without another question" in Reader(text).text
    finally:
        found.close()


def test_a_rehearsal_shows_the_calls_that_it_does_not_make(hub: Hub) -> None:
    """Issue 55, item 4."""
    page = Reader(post(hub, code="import git\nawait git.close(number=4)", action="rehearse")).text
    assert "Calls that were not made" in page and '"number": 4' in page
    assert not hub.activity.recent(Filter(tool="close"), 1).records
