"""The pages about access: keys, the editor of grants, and its preview.

Sources: ACCESS sections 2 and 3; issue 16 items 1 to 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.boot import read_variable
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.web.browsing import BROWSER

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
    assert "bash.tools" not in shown.text.partition("What key:robot sees")[2]
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
