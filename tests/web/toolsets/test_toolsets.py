"""The pages of toolsets: choose, rename, fix, try and save with forms alone, without a script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.operating.test_toolset_changes import GIT
from tests.hubs import Hub
from tests.kinds.toolset.sets import write
from tests.web.browsing import BROWSER, links, read, read_json
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, {"git.py": GIT}).log_in()
    yield found
    found.close()


def post(hub: Hub, path: str, status: int = 303, ticks: str = "", **fields: Any) -> Any:
    """Send the form of a page; `ticks` are origins, of the chosen tools in `had` and of others."""
    had, chosen = str(fields.get("had", "")).split("\n"), ticks.split()
    sent = {"csrf": csrf(hub, path), **fields, **{f"choose:{one}": "on" for one in chosen if one not in had}}
    sent |= {f"choose-{place}": "on" for place, one in enumerate(had) if one in chosen}
    answer = hub.client.post(path, data=sent, headers=BROWSER)
    assert answer.status_code == status, answer.get_data(as_text=True)[:3000]
    return answer


def stored(hub: Hub, name: str) -> Any:
    return json.loads((hub.servers / f"{name}.json").read_text())


def test_a_toolset_is_made_by_ticks_and_its_tools_are_served(hub: Hub) -> None:
    """Issue 54, item 4: each tool has its price beside it, and the list has one too."""
    assert "/toolsets" in links(read(hub, "/servers")) and "/toolsets/new" in links(read(hub, "/toolsets"))
    page = Reader(read(hub, "/toolsets/new")).text
    assert "bytes, about" in page and "All servers together at /mcp : 3 tools" in page.replace("/mcp:", "/mcp :")
    checked = post(hub, "/toolsets/new", 200, "git.log", name="release", action="check").get_data(as_text=True)
    assert "1 tool, " in Reader(checked).text and not (hub.servers / "release.json").exists()
    saved = post(hub, "/toolsets/new", ticks="git.log git.diff", name="release", title="Work", action="save")
    assert saved.headers["Location"] == "/toolsets/release?saved=1"
    assert "The toolset is saved." in Reader(read(hub, saved.headers["Location"])).text
    assert stored(hub, "release") == {"kind": "toolset", "title": "Work", "include": ["git.log", "git.diff"]}
    assert [tool["name"] for tool in hub.modern("release", "tools/list").result["tools"]] == ["log", "diff"]
    assert read_json(hub.client.get("/toolsets/release.json"))["price"].startswith("2 tools, ")


def test_a_chosen_tool_is_renamed_described_fixed_and_left_out(hub: Hub) -> None:
    post(hub, "/toolsets/new", ticks="git.log git.diff", name="release", action="save")
    form: dict[str, Any] = {
        "had": "git.log\ngit.diff",
        "was-0": "log",
        "name-0": "history",
        "was-1": "diff",
        "name-1": "diff",
    }
    form |= {"description-0": "The past.", "fixed-0": "repo=/srv\ncount=2"}
    post(hub, "/toolsets/release", ticks="git.log", action="save", **form)
    fixed = {"repo": {"value": "/srv"}, "count": {"value": 2}}
    assert stored(hub, "release") == {
        "kind": "toolset",
        "tools": {"history": {"from": "git.log", "description": "The past.", "arguments": fixed}},
    }
    assert hub.call("release", "history", {}).text == "/srv 2"
    page = read(hub, "/toolsets/release")
    assert "repo=/srv\ncount=2" in page and "The past." in page


def test_ticks_of_a_server_whose_name_has_a_dot_are_its_own(tmp_path: Path) -> None:
    """A pattern of `git` chooses nothing of `git.hub`, and one of `git.hub` chooses all of it."""
    hub = Hub(tmp_path, {"git.py": GIT, "git.hub.py": GIT}).log_in()
    write(hub, "release.json", json.dumps({"kind": "toolset", "include": ["git"]}))
    had = "git.log\ngit.diff\ngit.push"
    form: dict[str, Any] = {"had": had, **{f"was-{n}": name for n, name in enumerate(("log", "diff", "push"))}}
    post(hub, "/toolsets/release", ticks=f"{had} git.hub.push".replace("\n", " "), action="save", **form)
    assert stored(hub, "release") == {"kind": "toolset", "include": ["git", "git.hub.push"]}
    draft = json.dumps({"kind": "toolset", "include": ["git.hub.log"], "tools": {"x": {"from": "no"}}})
    page = post(hub, "/toolsets/new", 200, name="two", action="check", fields=draft).get_data(as_text=True)
    assert 'name="name-1" value="log"' in page
    hub.close()


def test_a_tool_is_tried_before_the_toolset_is_saved(hub: Hub) -> None:
    """The call is an ordinary one: it has a record."""
    form = {"had": "git.log", "was-0": "log", "name-0": "history", "fixed-0": "repo=/srv", "name": "release"}
    tried = post(
        hub, "/toolsets/new", 200, "git.log", action="try:history", **form, **{"arguments:history": '{"count": 7}'}
    )
    assert "/srv 7" in Reader(tried.get_data(as_text=True)).text
    lines = post(hub, "/toolsets/new", 200, "git.log", action="try:history", **form, **{"arguments:history": "count=8"})
    assert "/srv 8" in Reader(lines.get_data(as_text=True)).text
    assert not (hub.servers / "release.json").exists()
    wrong = post(hub, "/toolsets/new", 200, "git.log", action="try:history", **form, **{"arguments:history": "{"})
    assert "expected a JSON object, or NAME=VALUE on each line" in Reader(wrong.get_data(as_text=True)).text
    hub.activity.flush()
    assert any(row["name"] == "history" for row in read_json(hub.client.get("/activity.json"))["records"])


def test_a_mistake_saves_nothing_and_loses_nothing(hub: Hub) -> None:
    post(hub, "/toolsets/new", ticks="git.log", name="release", action="save")
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "name-0": "history", "fixed-0": "rep=1"}
    answer = post(hub, "/toolsets/release", 400, "git.log", action="save", **form)
    text = answer.get_data(as_text=True)
    assert "did you mean repo?" in Reader(text).text and "Nothing was saved." in Reader(text).text
    assert stored(hub, "release")["include"] == ["git.log"]
    late = post(hub, "/toolsets/release", 409, "git.log git.diff", action="save", base="bafkreiold", had="git.log")
    assert "another configuration was saved meanwhile" in Reader(late.get_data(as_text=True)).text
    unclear = post(hub, "/toolsets/release", 400, "git.log", action="save", **{**form, "fixed-0": "repo"})
    assert "expected NAME=VALUE on each line; got 'repo'" in Reader(unclear.get_data(as_text=True)).text
    taken = post(hub, "/toolsets/new", 400, "git.log", name="release", action="save")
    assert "expected no server release yet" in Reader(taken.get_data(as_text=True)).text
    assert 'value="release"' in taken.get_data(as_text=True)


def test_a_tool_that_cannot_be_listed_keeps_its_row_with_the_reason(hub: Hub) -> None:
    """What is wrong about it is changed where it was typed."""
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "name-0": "history", "fixed-0": "rep=1", "name": "new"}
    page = post(hub, "/toolsets/new", 200, "git.log", action="check", **form).get_data(as_text=True)
    assert "did you mean repo?" in Reader(page).text
    assert 'name="name-0" value="history"' in page and "rep=1" in page
    assert "This list: 0 tools" in Reader(page).text
    invalid = post(hub, "/toolsets/new", 200, "git.log", action="check", **form | {"name-0": "a b", "fixed-0": ""})
    page = invalid.get_data(as_text=True)
    assert "expected 1 to 128 letters" in Reader(page).text and 'name="name-0" value="a b"' in page
    refused = post(hub, "/toolsets/new", 400, "git.log", action="save", **form | {"name-0": "a b", "fixed-0": ""})
    assert "Nothing was saved. The name of a tool: expected 1 to 128" in Reader(refused.get_data(as_text=True)).text


UNKNOWN = "This list: not known until the fault of the form is mended; Check says what it is."


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"name-0": "a b"}, "The name of a tool: expected 1 to 128 letters"),
        ({"fixed-0": 'repo={"caller": "idd"}'}, "The fixed arguments of log: expected id or groups or email"),
        ({"prompts": "git.*\n?/"}, "Line 2 of the patterns of prompts: expected a pattern"),
    ],
)
def test_a_draft_with_a_fault_has_no_price_and_names_the_control_that_is_wrong(
    hub: Hub, typed: dict[str, str], sentence: str
) -> None:
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "name": "new"} | typed
    page = post(hub, "/toolsets/new", 200, "git.log", action="check", **form).get_data(as_text=True)
    assert sentence in Reader(page).text and UNKNOWN in Reader(page).text
    assert " at tools" not in Reader(page).text.lower()


def test_a_fault_is_shown_also_where_the_page_has_no_chosen_tool(hub: Hub) -> None:
    page = post(hub, "/toolsets/new", 200, name="new", action="check", resources="?/").get_data(as_text=True)
    assert "Line 1 of the patterns of resources: expected a pattern" in Reader(page).text
    assert UNKNOWN in Reader(page).text
    empty = post(hub, "/toolsets/new", 200, name="new", action="check").get_data(as_text=True)
    assert "This list: 0 tools, 0 bytes" in Reader(empty).text and 'role="alert"' not in empty


def test_a_problem_of_one_tool_names_its_control_when_it_is_saved_too(hub: Hub) -> None:
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "name": "new", "result-0": "{text"}
    page = post(hub, "/toolsets/new", 400, "git.log", action="save", **form).get_data(as_text=True)
    assert "Nothing was saved. The jq expression of log: " in Reader(page).text


def test_a_new_toolset_begins_with_the_tools_of_its_address(hub: Hub) -> None:
    page = read(hub, "/toolsets/new?add=git.log")
    assert "This list: 1 tool" in Reader(page).text and 'name="choose-0"' in page


def test_the_page_of_a_tool_leads_to_the_toolsets_that_may_get_it(hub: Hub) -> None:
    """Issue 54: *Add to a toolset* on the page of a tool, for the operator alone."""
    link = "/toolsets?add=git.log"
    assert link in read(hub, "/servers/git")
    assert link in read(hub, "/servers/git?tool=log&part=entry")
    assert "/toolsets?add=" not in hub.app.test_client().get("/servers/git", headers=BROWSER).get_data(as_text=True)
    post(hub, "/toolsets/new", ticks="git.diff", action="save", name="mine")
    page = read(hub, link)
    assert 'action="/toolsets/mine"' in page and "/toolsets/new?add=git.log" in page
    assert 'action="/toolsets/mcp"' not in page
    token = csrf(hub, "/toolsets/mine")
    answer = hub.client.post("/toolsets/mine", data={"csrf": token, "do": "add", "entries": "git.log"})
    assert answer.status_code == 303
    assert stored(hub, "mine")["include"] == ["git.diff", "git.log"]


def test_a_value_is_a_text_where_the_argument_takes_only_texts(hub: Hub) -> None:
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "name-0": "log", "fixed-0": "repo=5\ncount=2"}
    post(hub, "/toolsets/new", ticks="git.log", action="save", name="typed", **form)
    fixed = {"repo": {"value": "5"}, "count": {"value": 2}}
    assert stored(hub, "typed")["tools"]["log"]["arguments"] == fixed
    page = read(hub, "/toolsets/typed")
    assert "repo=&#34;5&#34;\ncount=2" in page


def test_a_name_of_another_chosen_tool_is_refused(hub: Hub) -> None:
    written = {"kind": "toolset", "tools": {"one": "git.log", "two": "git.diff"}}
    (hub.servers / "pair.json").write_text(json.dumps(written))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    form: dict[str, Any] = {
        "had": "git.log\ngit.diff",
        "was-0": "one",
        "name-0": "two",
        "was-1": "two",
        "name-1": "two",
    }
    answer = post(hub, "/toolsets/pair", 400, "git.log git.diff", action="save", **form)
    assert "because two is there already" in Reader(answer.get_data(as_text=True)).text
    assert stored(hub, "pair") == written


def test_a_form_leaves_what_it_does_not_show(hub: Hub) -> None:
    """Patterns, limits and results of the file stay."""
    written = {"kind": "toolset", "include": ["git.*"], "rights": "caller", "tools": {"past": {"from": "jq.keys"}}}
    (hub.servers / "kept.json").write_text(json.dumps(written))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    form: dict[str, Any] = {"had": "jq.keys\ngit.log\ngit.diff\ngit.push"}
    post(hub, "/toolsets/kept", ticks="jq.keys git.log git.push", action="save", **form)
    assert stored(hub, "kept") == {**written, "exclude": ["git.diff"]}


SHAPED = {
    "mine": {
        "from": "git.log",
        "title": "Mine",
        "result": "ascii_upcase",
        "max_bytes": 500,
        "annotations": {"destructiveHint": True},
        "arguments": {"repo": {"value": "/srv"}, "count": {"name": "number"}},
    },
    "all": {"from": "git.log", "result": ".[:3]"},
    "own": {"from": "git.log", "arguments": {"repo": {"value": {"caller": "id"}}}},
    "plain": "git.log",
    "other": "git.diff",
}


@pytest.fixture
def shaped(hub: Hub) -> dict[str, Any]:
    """A toolset with several tools of one origin, each with something that the form has no control for."""
    written = {"kind": "toolset", "tools": SHAPED}
    (hub.servers / "shaped.json").write_text(json.dumps(written))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    return written


def press(hub: Hub, html: str, status: int, untick: str = "", action: str = "save", **changed: str) -> Any:
    """Send the form that a page has, as a browser does; without the tick of the tool `untick`."""
    form = html[html.index('action="/toolsets/') :]
    target = unescape(form.removeprefix('action="').partition('"')[0])
    fields = {key: unescape(value) for key, value in re.findall(r'<input[^>]* name="([^"]*)" value="([^"]*)"', form)}
    areas = re.findall(r'<textarea name="([^"]*)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
    fields |= {key: unescape(value) for key, value in areas}
    fields |= dict.fromkeys(re.findall(r'<input type="checkbox" name="([^"]*)" checked>', form), "on")
    fields |= dict(re.findall(r'<input type="radio" name="([^"]*)" value="([^"]*)" checked>', form))
    if untick:
        place = next(key for key, value in fields.items() if key.startswith("was-") and value == untick)
        del fields[place.replace("was-", "choose-")]
    answer = hub.client.post(target, data=fields | {"action": action} | changed, headers=BROWSER)
    assert answer.status_code == status, Reader(answer.text).text[:3000]
    return answer


def test_a_form_that_is_sent_as_it_came_changes_nothing(hub: Hub, shaped: dict[str, Any]) -> None:
    press(hub, read(hub, "/toolsets/shaped"), 303)
    assert stored(hub, "shaped") == shaped


def test_a_fact_about_the_caller_is_no_text_where_the_argument_takes_only_texts(hub: Hub) -> None:
    """It is a fact when it is typed, and stays one when the page is saved again for its title alone."""
    form: dict[str, Any] = {"had": "git.log", "was-0": "log", "fixed-0": 'repo={"caller": "id"}\ncount=1'}
    post(hub, "/toolsets/new", ticks="git.log", action="save", name="owned", **form)
    first = hub.call("owned", "log", {}).text
    assert first and "caller" not in first
    press(hub, read(hub, "/toolsets/owned"), 303, title="Owned")
    assert stored(hub, "owned")["title"] == "Owned"
    assert hub.call("owned", "log", {}).text == first


def test_an_expression_stays_with_its_tool_when_a_check_takes_the_tool_before_it_away(
    hub: Hub, shaped: dict[str, Any]
) -> None:
    """The page of a check has other places for its tools than the form that was sent."""
    checked = press(hub, read(hub, "/toolsets/shaped"), 200, untick="mine", action="check")
    press(hub, checked.text, 303)
    assert stored(hub, "shaped")["tools"] == {key: one for key, one in SHAPED.items() if key != "mine"}


def test_a_name_that_is_taken_loses_nothing_else_that_was_typed(hub: Hub, shaped: dict[str, Any]) -> None:
    page = read(hub, "/toolsets/shaped")
    place = next(one for one in re.findall(r'name="was-(\d+)" value="all"', page))
    typed = {f"name-{place}": "mine", f"result-{place}": ".[:7]", f"description-{place}": "The first seven."}
    refused = press(hub, page, 400, **typed)
    assert "because mine is there already" in Reader(refused.text).text
    press(hub, refused.text, 303)
    expected = {"from": "git.log", "result": ".[:7]", "description": "The first seven."}
    assert stored(hub, "shaped")["tools"] == SHAPED | {"all": expected}


def test_an_expression_of_a_stranger_is_shown_beside_its_tool_and_not_checked(hub: Hub, shaped: dict[str, Any]) -> None:
    page = read(hub, "/toolsets/shaped")
    hub.client = hub.app.test_client()
    hub.client.environ_base["HTTP_ORIGIN"] = "http://localhost"
    place = next(one for one in re.findall(r'name="was-(\d+)" value="all"', page))
    refused = press(hub, page, 401, untick="mine", **{f"name-{place}": "first", f"result-{place}": "{bad"})
    (shown,) = re.findall(r'name="was-(\d+)" value="first"', refused.text)
    areas = dict(re.findall(r'<textarea name="(result-\d+)"[^>]*>\n(.*?)</textarea>', refused.text, re.DOTALL))
    assert areas.pop(f"result-{shown}") == "{bad" and set(areas.values()) == {""}
    assert "is not valid" not in refused.text


def test_the_reason_beside_a_tool_is_its_own_where_another_name_begins_with_its_name(hub: Hub) -> None:
    pair = {"log.old": {"from": "git.lgo"}, "log": {"from": "git.dif"}, "logs": {"from": "git.psh"}}
    (hub.servers / "pair.json").write_text(json.dumps({"kind": "toolset", "include": ["git.push"], "tools": pair}))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    rows = Reader(read(hub, "/toolsets/pair").partition("Chosen tools")[2]).text
    reasons = [
        re.search(rf"{origin}\W.*?did you mean (git\.\w+)", rows, re.DOTALL) for origin in ("git.lgo", "git.dif")
    ]
    assert [found and found[1] for found in reasons] == ["git.log", "git.diff"], rows


def test_one_of_several_tools_of_one_origin_is_taken_out_alone(hub: Hub, shaped: dict[str, Any]) -> None:
    press(hub, read(hub, "/toolsets/shaped"), 303, untick="all")
    assert stored(hub, "shaped") == {"kind": "toolset", "tools": {k: v for k, v in SHAPED.items() if k != "all"}}


def test_a_renamed_tool_keeps_what_the_form_has_no_control_for_also_after_a_check(
    hub: Hub, shaped: dict[str, Any]
) -> None:
    page = read(hub, "/toolsets/shaped")
    place = next(one for one in re.findall(r'name="was-(\d+)" value="mine"', page))
    checked = press(hub, page, 200, action="check", **{f"name-{place}": "yours"})
    press(hub, press(hub, checked.text, 200, action="check").text, 303)
    renamed = {("yours" if key == "mine" else key): one for key, one in SHAPED.items()}
    assert stored(hub, "shaped")["tools"] == renamed


def test_a_new_toolset_keeps_a_name_from_an_earlier_check(hub: Hub) -> None:
    fields = {"had": "git.log", "was-0": "log", "name-0": "history", "name": "release"}
    checked = post(hub, "/toolsets/new", 200, "git.log", action="check", **fields)
    press(hub, checked.get_data(as_text=True), 303)
    assert stored(hub, "release")["tools"] == {"history": "git.log"}


@pytest.mark.parametrize(
    "carried",
    [
        *("{", "[]", '{"kind": "documents", "root": "/etc"}', '{"kind": "toolset", "tools": {"a": 1}}'),
        '{"kind": "toolset", "include": "git"}',
        '{"kind": "toolset", "tools": {"a": {"from": "git.log", "arguments": {"b": 1}}}}',
    ],
)
def test_fields_that_no_page_had_are_refused(hub: Hub, carried: str) -> None:
    answer = post(hub, "/toolsets/new", 400, "git.log", action="save", name="release", fields=carried)
    assert "must be the configuration that the page had" in Reader(answer.get_data(as_text=True)).text
    assert not (hub.servers / "release.json").exists()


def test_a_new_toolset_never_takes_the_place_of_a_server(hub: Hub) -> None:
    """A server of the boot image has no file in the folder, and one there would replace it for everybody."""
    tools = list(hub.catalogue.find_any("jq").tools)
    answer = post(hub, "/toolsets/new", 400, "git.log", name="jq", action="save")
    assert "this hub has a server of this name" in Reader(answer.get_data(as_text=True)).text
    assert not (hub.servers / "jq.json").exists()
    assert list(hub.catalogue.find_any("jq").tools) == tools


def test_a_search_narrows_the_tools_that_are_offered(hub: Hub) -> None:
    found = Reader(read(hub, "/toolsets/new?find=commits")).text
    assert "Show the commits." in found and "Show the changes." not in found
    assert "No tool has these words." in Reader(read(hub, "/toolsets/new?find=zebra")).text


def test_the_list_of_all_servers_has_a_page_with_its_price_and_its_switches(hub: Hub) -> None:
    page = Reader(read(hub, "/toolsets/mcp")).text
    assert "3 tools, " in page and "jq" in page.partition("Not in this list")[2]
    post(hub, "/toolsets/mcp", do="add", entries="jq")
    assert "jq__keys" in Reader(read(hub, "/toolsets/mcp")).text


def test_only_the_operator_sees_and_changes_toolsets(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"git.py": GIT}, access="shared")
    try:
        for path in ("/toolsets", "/toolsets/new", "/toolsets/mcp"):
            assert hub.client.get(path, headers=BROWSER).status_code in (303, 401, 403, 404)
        sent = {"do": "new", "entries": "git.log", "csrf": "x"}
        answer = hub.client.post("/toolsets/mine", data=sent, headers=BROWSER | {"Origin": "http://localhost"})
        assert answer.status_code in (401, 403) and not (hub.servers / "mine.json").exists()
    finally:
        hub.close()


def test_resources_prompts_and_an_expression_over_a_result_are_chosen_on_the_page(hub: Hub) -> None:
    """Issue 54, item 4: each is shown before it is saved, and a mistake names the nearest word."""
    book = {
        "resources": {"page": {"uri": "book://page", "name": "page", "text": "x"}},
        "prompts": {"ask": {"messages": [{"content": "x"}]}},
    }
    (hub.servers / "book.json").write_text(json.dumps(book))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    form: dict[str, Any] = {"name": "release", "had": "git.log", "was-0": "log", "name-0": "past"}
    form |= {"result-0": "{text: .}", "resources": "bok://*", "prompts": "book.ask", "fields": ""}
    form["fields"] = json.dumps({"kind": "toolset", "include": ["git.log"]})
    shown = post(hub, "/toolsets/new", 200, "git.log", action="check", **form).get_data(as_text=True)
    assert "bok://* matches no resource; did you mean book://*?" in unescape(shown)
    form["resources"] = " book://*\n\n"
    shown = post(hub, "/toolsets/new", 200, "git.log", action="check", **form).get_data(as_text=True)
    assert "Chosen resources (1)" in Reader(shown).text and "Chosen prompts (1)" in Reader(shown).text
    wrong = post(hub, "/toolsets/new", 400, "git.log", action="save", **{**form, "result-0": "{text"}).get_data(
        as_text=True
    )
    assert "is not valid" in wrong and "{text" in unescape(wrong)
    post(hub, "/toolsets/new", ticks="git.log", action="save", **form)
    named = {"from": "git.log", "result": "{text: .}"}
    expected = {"kind": "toolset", "tools": {"past": named}, "resources": ["book://*"], "prompts": ["book.ask"]}
    assert stored(hub, "release") == expected
    page = Reader(read(hub, "/toolsets/release")).text
    assert "Chosen resources (1)" in page
    cleared: dict[str, Any] = {
        "had": "git.log",
        "was-0": "past",
        "name-0": "past",
        "result-0": "",
        "resources": "",
        "prompts": "",
    }
    post(hub, "/toolsets/release", ticks="git.log", action="save", fields=json.dumps(stored(hub, "release")), **cleared)
    assert stored(hub, "release") == {"kind": "toolset", "tools": {"past": "git.log"}}


WORDS = "Do something useful. " * 20
LONG = '"""Many tools."""\n' + "".join(
    f'\n\ndef tool_{number}(a: str, b: int = 1) -> str:\n    """{WORDS}"""\n    return a\n' for number in range(60)
)


def way(page: str) -> str:
    """The way to list the tools that a form has chosen."""
    [found] = re.findall(r'name="scripts" value="(\w+)" checked', page)
    return str(found)


def test_a_long_list_begins_with_scripts_alone_and_says_what_that_saves(tmp_path: Path) -> None:
    """Issue 55, item 1: the default choice that the page offers for long lists."""
    found = Hub(tmp_path, {"git.py": GIT, "long.py": LONG}).log_in()
    origins = " ".join(f"long.tool_{number}" for number in range(60))
    assert way(read(found, "/toolsets/new")) == "off"
    short = post(found, "/toolsets/new", 200, "git.log", name="a", action="check", scripts="off").get_data(as_text=True)
    assert way(short) == "off"
    sent: dict[str, Any] = {"name": "a", "scripts": "off", "scripts-offered": "off"}
    page = post(found, "/toolsets/new", 200, origins, action="check", **sent).get_data(as_text=True)
    assert way(page) == "only" and re.search(r"2 tools, .*; [\d,]+ bytes less", Reader(page).text)
    post(found, "/toolsets/new", ticks=origins, action="save", **sent | {"scripts": "only"})
    assert stored(found, "a")["scripts"] == "only"
    names = [tool["name"] for tool in found.modern("a", "tools/list").result["tools"]]
    assert names == ["find_tools", "run_script"]
    found.close()


def test_a_way_that_a_person_chooses_stays(tmp_path: Path) -> None:
    found = Hub(tmp_path, {"long.py": LONG}).log_in()
    origins = " ".join(f"long.tool_{number}" for number in range(60))
    sent: dict[str, Any] = {"name": "a", "scripts": "off", "scripts-offered": "only"}
    page = post(found, "/toolsets/new", 200, origins, action="check", **sent).get_data(as_text=True)
    assert way(page) == "off"
    post(found, "/toolsets/new", ticks=origins, action="save", **sent)
    assert "scripts" not in stored(found, "a")
    post(found, "/toolsets/a", ticks=origins, action="save", had=origins.replace(" ", "\n"), scripts="also")
    assert stored(found, "a")["scripts"] == "also"
    assert way(read(found, "/toolsets/a")) == "also"
    found.close()


SCRIPT = (
    "import release\n\n\nasync def logs(count: int) -> str:\n    return await release.log(repo='/a', count=count)\n"
)


def test_a_script_is_added_tried_changed_and_taken_out(hub: Hub) -> None:
    """Issue 55, item 5: a saved script is a tool; it needs no file."""
    post(hub, "/toolsets/new", ticks="git.log", name="release", action="save")
    had: dict[str, Any] = {"had": "git.log", "was-0": "log"}
    post(hub, "/toolsets/release", ticks="git.log", action="save", **had | {"new-script": SCRIPT})
    assert stored(hub, "release")["tools"] == {"logs": {"script": SCRIPT}}
    page = read(hub, "/toolsets/release")
    assert "a script" in Reader(page).text and "async def logs" in page
    had = {"had": "git.log\nscript:logs", "was-0": "log", "was-1": "logs"}
    both, changed = "git.log script:logs", SCRIPT.replace("return", "return 'now ' +")
    tried = post(
        hub,
        "/toolsets/release",
        200,
        both,
        action="try:logs",
        **had | {"script-1": changed, "arguments:logs": "count=3"},
    )
    assert "now /a 3" in Reader(tried.get_data(as_text=True)).text
    assert stored(hub, "release")["tools"] == {"logs": {"script": SCRIPT}}
    post(hub, "/toolsets/release", ticks=both, action="save", **had | {"script-1": changed, "name-1": "history"})
    assert stored(hub, "release")["tools"] == {"history": {"script": changed}}
    had |= {"had": "git.log\nscript:history", "was-1": "history"}
    post(hub, "/toolsets/release", ticks="git.log", action="save", **had)
    assert "tools" not in stored(hub, "release") and "exclude" not in stored(hub, "release")


def test_a_fault_of_a_script_is_shown_with_its_line_and_its_text_stays(hub: Hub) -> None:
    post(hub, "/toolsets/new", ticks="git.log", name="release", action="save")
    had: dict[str, Any] = {"had": "git.log", "was-0": "log", "new-script": SCRIPT.replace("count: int", "count")}
    page = post(hub, "/toolsets/release", 400, "git.log", action="save", **had).get_data(as_text=True)
    assert "the parameter count has no type: write count: str (line 4)" in Reader(page).text
    assert "async def logs(count)" in page and "tools" not in stored(hub, "release")
    nothing = post(hub, "/toolsets/release", 400, "git.log", action="save", **had | {"new-script": "x = 1"})
    assert "expected a function" in Reader(nothing.get_data(as_text=True)).text


def test_the_script_of_a_file_is_changed_in_its_file(tmp_path: Path) -> None:
    fields = {"kind": "toolset", "include": ["git.log"], "tools": {"logs": {"script": "logs.py"}}}
    found = Hub(tmp_path, {"git.py": GIT, "release.json": json.dumps(fields), "logs.py": SCRIPT}).log_in()
    try:
        had: dict[str, Any] = {"had": "git.log\nscript:logs", "was-0": "log", "was-1": "logs", "script-1": SCRIPT}
        both = "git.log script:logs"
        post(found, "/toolsets/release", ticks=both, action="save", title="Work", **had)
        assert stored(found, "release") == {**fields, "title": "Work"}
        had["script-1"] = f"{SCRIPT}# changed"
        refused = post(found, "/toolsets/release", 403, both, action="save", **had).get_data(as_text=True)
        assert "it is the file logs.py; edit that" in Reader(refused).text
        assert stored(found, "release") == {**fields, "title": "Work"}
    finally:
        found.close()
