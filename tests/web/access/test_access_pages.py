"""The pages about access: keys, the editor of grants, and its preview.

Sources: ACCESS sections 2 and 3; issue 16 items 1 to 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.boot import read_variable
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.web.browsing import BROWSER, links

GRANTS = {"grants": [{"to": ["key:robot"], "may": ["call"], "on": ["notes.search"]}]}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("pages")).log_in()
    yield hub
    hub.close()


def page(hub: Hub, path: str) -> str:
    answer = hub.client.get(path, headers=BROWSER)
    assert answer.status_code == 200, answer.text
    return answer.text


def post(hub: Hub, path: str, **fields: str) -> Any:
    found = re.search(r'name="csrf" value="([^"]+)"', page(hub, path))
    assert found is not None
    return hub.client.post(path, data={"csrf": found[1], **fields}, headers=BROWSER)


def json_of(hub: Hub, path: str, headers: dict[str, str] | None = None) -> Any:
    answer = (hub.app.test_client() if headers else hub.client).get(path, headers=headers)
    return orjson.loads(answer.get_data())


def variable(hub: Hub) -> Any:
    value = read_variable(hub.catalogue.store, "access")
    return None if value is None else orjson.loads(value)


def test_a_key_is_made_shown_once_listed_and_revoked(hub: Hub) -> None:
    made = post(hub, "/access/keys", name="robot", expires="1d", grants="call:notes.*, read")
    key = re.search(r"patchbay_key_[A-Za-z0-9_-]{43}", made.text)
    assert made.status_code == 200 and key is not None
    assert made.headers["Cache-Control"] == "no-store"
    assert key[0] not in page(hub, "/access/keys")
    assert "/activity?caller=key%3Arobot" in links(page(hub, "/access/keys"))
    listed = json_of(hub, "/access/keys.json")["keys"]
    assert [(one["name"], one["principal"], one["grants"]) for one in listed] == [
        ("robot", "key:robot", ["call:notes.*", "read"])
    ]
    program = hub.app.test_client()
    headers = {"Authorization": f"Bearer {key[0]}"}
    assert program.post("/notes/search", json={}, headers=headers).status_code == 200
    assert post(hub, "/access/keys", do="revoke", name="robot").status_code == 303
    assert program.post("/notes/search", json={}, headers=headers).status_code == 401
    assert json_of(hub, "/access/keys.json")["keys"] == []


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"name": "a b"}, 400, "1 to 64"),
        ({"name": "ann", "expires": "soon"}, 400, "expected a time"),
        ({"name": "ann", "grants": "write"}, 400, "expected grants"),
        ({"name": "ann", "grants": "call:notes/search"}, 400, "write notes.search"),
        ({"name": "ann", "do": "show"}, 400, "do must be"),
        ({"name": "absent", "do": "revoke"}, 404, "there is no key"),
    ],
)
def test_a_wrong_form_makes_no_key(hub: Hub, fields: dict[str, str], status: int, sentence: str) -> None:
    answer = post(hub, "/access/keys", **fields)
    assert answer.status_code == status
    assert sentence.lower() in answer.text.lower()
    assert json_of(hub, "/access/keys.json")["keys"] == []


def test_grants_are_previewed_before_they_are_saved(hub: Hub) -> None:
    set_grants(hub, None)
    text = orjson.dumps(GRANTS).decode()
    shown = post(hub, "/access", action="check", source=text, **{"as": "key:robot"})
    assert shown.status_code == 200 and "What key:robot sees" in shown.text
    row = re.search(r"<code>notes</code></th>(.*?)</tr>", shown.text, re.DOTALL)
    assert row is not None and "search" in row[1] and "delete_note" not in row[1]
    assert "bash.tools" not in shown.text.partition("What key:robot sees")[2].partition('id="table"')[0]
    assert variable(hub) is None
    assert post(hub, "/access", action="save", source=text, why="for the robot").status_code == 303
    assert variable(hub) == GRANTS
    assert "for the robot" in page(hub, "/variables/access")
    key = new_key(hub, "robot")
    rows = json_of(hub, "/servers.json", key)
    assert [(one["name"], one["tools"]) for one in rows] == [("notes", 1)]
    as_now = json_of(hub, "/access.json?as=key:robot")["preview"]
    assert [(row["server"], row["call"], row["see"]) for row in as_now["servers"]] == [("notes", ["search"], False)]
    base = hub.catalogue.store.names.get("variables/access")
    assert post(hub, "/access", action="remove", base=base).status_code == 303
    assert variable(hub) is None
    hub.app.parts.keys.revoke("robot")


def test_a_text_that_cannot_be_read_is_kept_in_the_form_and_not_saved(hub: Hub) -> None:
    set_grants(hub, GRANTS)
    base = hub.catalogue.store.names.get("variables/access")
    answer = post(hub, "/access", action="save", source='{"grants": "all <b>"}', base=base)
    assert answer.status_code == 422
    assert "at grants" in answer.text and "all &lt;b&gt;" in answer.text
    assert variable(hub) == GRANTS
    stale = post(hub, "/access", action="save", source='{"grants": []}', base="")
    assert stale.status_code == 409 and variable(hub) == GRANTS
    set_grants(hub, None)


def test_only_an_administrator_reads_and_changes_access(hub: Hub) -> None:
    key = new_key(hub, "member")
    program = hub.app.test_client()
    for path in ("/access", "/access/keys"):
        assert program.get(path, headers=key).status_code == 401
        assert program.post(path, data={"action": "save", "source": "{}", "name": "x"}, headers=key).status_code == 401
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert hub.client.post("/access/keys", data={"name": "x"}, headers=foreign).status_code == 403
    assert hub.client.post("/access/keys", data={"name": "x"}, headers=BROWSER).status_code == 403
    hub.app.parts.keys.revoke("member")
    assert json_of(hub, "/access/keys.json")["keys"] == []


def test_a_key_with_a_grant_that_matches_nothing_now_is_made_with_a_warning(hub: Hub) -> None:
    made = post(hub, "/access/keys", name="typist", grants="call:notes.serch, call:notes.search")
    assert made.status_code == 200 and "patchbay_key_" in made.text
    assert "did you mean call:notes.search?" in made.text
    assert made.text.count("matches nothing now") == 1
    assert post(hub, "/access/keys", do="revoke", name="typist").status_code == 303


def test_the_page_of_grants_warns_of_rows_that_match_nothing_and_refuses_those_that_never_can(hub: Hub) -> None:
    set_grants(hub, None)
    text = orjson.dumps({"grants": [{"to": ["ann"], "may": ["call"], "on": ["notes.serch", "notes.search"]}]}).decode()
    sentence = "grant 1: notes.serch matches nothing now: notes has no tool of this name; did you mean notes.search?"
    assert sentence.removeprefix("grant") in post(hub, "/access", action="check", source=text).text
    assert post(hub, "/access", action="save", source=text).status_code == 303
    assert json_of(hub, "/access.json")["warnings"] == [sentence]
    base = hub.catalogue.store.names.get("variables/access")
    never = text.replace("notes.serch", "notes/search")
    refused = post(hub, "/access", action="save", source=never, base=base)
    assert refused.status_code == 422 and "can never match" in refused.text and "It was not saved" in refused.text
    assert hub.catalogue.store.names.get("variables/access") == base
    set_grants(hub, None)


def press(hub: Hub, button: str, **fields: str) -> Any:
    """Press a button of the table, with the text that the page has now unless another is given."""
    return post(hub, "/access", **({"source": text_in(page(hub, "/access")), "base": base_of(hub)} | fields), do=button)


def text_in(html: str) -> str:
    found = re.search(r'<textarea[^>]* id="source"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def base_of(hub: Hub) -> str:
    return hub.catalogue.store.names.get("variables/access") or ""


def test_a_button_of_the_table_changes_the_text_and_saves_nothing(hub: Hub) -> None:
    set_grants(hub, GRANTS)
    shown = press(hub, "set call notes.delete_note ann@example.org")
    assert shown.status_code == 200 and variable(hub) == GRANTS
    assert "ann@example.org may call notes.delete_note." in shown.text
    text = text_in(shown.text)
    assert orjson.loads(text)["grants"] == [
        *GRANTS["grants"],
        {"to": ["ann@example.org"], "may": ["call"], "on": ["notes.delete_note"]},
    ]
    back = press(hub, "set call notes.delete_note ann@example.org", source=text)
    assert orjson.loads(text_in(back.text)) == GRANTS
    assert (
        post(hub, "/access", action="save", source=text, base=base_of(hub), who="ann@example.org")
        .headers["Location"]
        .endswith("/access?who=ann%40example.org")
    )
    assert variable(hub) == orjson.loads(text)
    set_grants(hub, None)


def test_without_rules_the_text_allows_what_the_hub_allows_and_saving_it_changes_no_right(hub: Hub) -> None:
    set_grants(hub, None)
    assert orjson.loads(text_in(page(hub, "/access"))) == {
        "grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
    }
    assert "What saving changes" not in page(hub, "/access")
    less = press(hub, "set call * *")
    assert "From now on the hub has access rules" in less.text
    assert "Everyone may no longer call everything." in less.text


def test_the_table_opens_a_server_chooses_a_name_and_finds_a_tool_in_the_address(hub: Hub) -> None:
    set_grants(hub, GRANTS)
    rows = rights_rows(page(hub, "/access?open=notes&who=key:robot"))
    assert "search" in rows and "delete_note" in rows and "note://{id}" in rows
    assert rights_rows(page(hub, "/access?open=notes&find=delete_note")) == ["Every server", "notes", "delete_note"]
    assert "search" in rights_rows(press(hub, "open notes").text)
    assert "search" not in rights_rows(press(hub, "open notes", open="notes").text)
    assert 'name="who" value="key:robot"' in press(hub, "who key:robot").text
    set_grants(hub, None)


def rights_rows(html: str) -> list[str]:
    """The labels of the rows of the table of rights."""
    rows = re.findall(r'<th scope="row">(.*?)</th>', html.partition('<table class="rights')[2].partition("</table>")[0])
    return [unescape(re.sub(r"<[^>]+>", "", re.sub(r'<span class="tag.*?</span>', "", row))).strip() for row in rows]


@pytest.mark.parametrize("text", ['{"grants": [', '{"grants": [], "roles": {"x": 1}}', "[]"])
def test_a_text_that_the_table_cannot_show_is_kept_whole_and_no_button_changes_it(hub: Hub, text: str) -> None:
    set_grants(hub, GRANTS)
    shown = press(hub, "set call notes ann", source=text)
    assert shown.status_code == 422
    assert text_in(shown.text) == text and '<table class="rights' not in shown.text
    assert "The table cannot show this text" in shown.text and "which is kept" in shown.text
    assert variable(hub) == GRANTS
    set_grants(hub, None)


def test_a_conflict_is_refused_with_both_texts_and_is_decided_by_the_author(hub: Hub) -> None:
    set_grants(hub, GRANTS)
    begun = base_of(hub)
    other = {"grants": [{"to": ["zoe"], "may": ["see"], "on": ["lone"]}]}
    set_grants(hub, other)
    mine = orjson.dumps(
        {"grants": [{"to": ["ann"], "may": ["see"], "on": ["notes"]}]}, option=orjson.OPT_INDENT_2
    ).decode()
    refused = post(hub, "/access", action="save", source=mine, base=begun)
    assert refused.status_code == 409 and variable(hub) == other
    assert text_in(refused.text) == mine
    assert "Somebody else saved other grants meanwhile" in refused.text
    assert "zoe may no longer see lone." in refused.text and "ann may see notes." in refused.text
    compared = refused.text.partition('class="diff"')[2]
    assert "zoe" in compared and "ann" in compared
    again = post(hub, "/access", action="save", source=mine, base=begun)
    assert again.status_code == 409
    stale = post(hub, "/access", action="replace", source=mine, base=begun, theirs=begun)
    assert stale.status_code == 409 and variable(hub) == other
    assert post(hub, "/access", action="replace", source=mine, base=begun, theirs=base_of(hub)).status_code == 303
    assert variable(hub) == orjson.loads(mine)
    set_grants(hub, None)


@pytest.mark.parametrize("button", ["set write notes ann", "set call notes", "set call", "delete notes", "set"])
def test_a_button_that_the_table_has_not_is_refused(hub: Hub, button: str) -> None:
    set_grants(hub, GRANTS)
    answer = press(hub, button)
    assert answer.status_code == 400 and "Do must be a button of the table" in answer.text
    assert orjson.loads(text_in(answer.text)) == GRANTS
    assert variable(hub) == GRANTS
    set_grants(hub, None)


def test_the_page_of_300_servers_has_a_bounded_size(tmp_path: Path) -> None:
    """The goal of docs/pages.md is 84 KB for a page with its style sheets and scripts."""
    names = {
        f"server_{n:03}.py": 'def say(text: str) -> str:\n    """Say it."""\n    return text\n' for n in range(300)
    }
    hub = team_hub(tmp_path, names).log_in()
    try:
        people = [f"person{n}@example.org" for n in range(40)]
        rows = [{"to": [name], "may": ["see", "call"], "on": [f"server_{n:03}"]} for n, name in enumerate(people)]
        set_grants(hub, {"grants": rows})
        shown = page(hub, "/access?open=server_017")
        assert len(shown.encode()) < 60_000
        assert len(rights_rows(shown)) < 40
        assert "server_299" in rights_rows(page(hub, "/access?find=server_299"))
    finally:
        hub.close()


def test_a_read_only_hub_shows_the_table_without_buttons_that_change_it(tmp_path: Path) -> None:
    hub = team_hub(tmp_path).log_in()
    try:
        set_grants(hub, GRANTS)
        hub.catalogue.readonly = True
        shown = page(hub, "/access?do=open+notes")
        assert 'value="set ' not in shown and 'name="action" value="save"' not in shown
        assert "delete_note" in rights_rows(shown)
    finally:
        hub.close()


def test_the_text_of_the_grants_can_be_typed_in_except_on_a_read_only_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path).log_in()
    try:
        assert "readonly" not in page(hub, "/access")
        hub.catalogue.readonly = True
        assert re.search(r'<textarea[^>]* id="source"[^>]* readonly[ >]', page(hub, "/access"))
    finally:
        hub.close()


def test_no_page_of_a_walk_of_the_operator_has_an_attribute_none(tmp_path: Path) -> None:
    hub = team_hub(tmp_path).log_in()
    try:
        seen: set[str] = set()
        ahead = ["/", "/access", "/toolsets/new"]
        while ahead:
            path = ahead.pop()
            answer = hub.client.get(path, headers=BROWSER)
            answer.close()
            if answer.mimetype != "text/html" or answer.status_code != 200:
                continue
            html = answer.get_data(as_text=True)
            assert re.findall(r'<[^>]*="None"[^>]*>', html) == [], path
            found = {each.removeprefix("http://localhost").partition("#")[0] for each in links(html)}
            ahead += sorted(each for each in found - seen if each.startswith("/"))
            seen |= found
        assert len(seen) > 20
    finally:
        hub.close()
