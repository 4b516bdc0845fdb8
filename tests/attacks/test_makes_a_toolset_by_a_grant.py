"""A member with the grant `operate` on one name makes a toolset, and tries to get more than the own rights by it.

Sources: issue 54; docs/toolsets.md, Rights; CWE-269 (improper privilege management), CWE-441 (confused deputy).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.kinds.toolset.sets import FILES, toolset, write
from tests.web.browsing import read_json

SECRET = '''"""Secrets."""


def read_secret() -> str:
    """Read the secret."""
    return "the secret text"


def delete_secret() -> str:
    """Delete the secret."""
    return "deleted"
'''
SCRIPT = 'import mine\n\n\nasync def go() -> str:\n    """Go."""\n    return "x"\n'
STAR = json.dumps({"resources": {"star": {"uri": "star://*", "text": "a star"}}})
"""A resource whose URI would be a pattern of others."""

OF_OPERATOR = toolset(tools={"all": "hidden.read_secret"})
GRANTS = [
    {"to": ["key:ann"], "may": ["operate"], "on": ["mine", "theirs", "git"]},
    {"to": ["key:ann"], "may": ["call", "read"], "on": ["git", "time.now", "star"]},
    {"to": ["*"], "may": ["call"], "on": ["mine"]},
    {"to": ["key:ben"], "may": ["call"], "on": ["time"]},
]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hidden = {
        "hidden.py": SECRET,
        "hidden.mcp.json": FILES["git.mcp.json"],
        "theirs.json": OF_OPERATOR,
        "star.json": STAR,
    }
    found = team_hub(tmp_path, {**FILES, **hidden})
    set_grants(found, {"grants": GRANTS})
    yield found
    found.close()


@pytest.fixture
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def do(hub: Hub, who: dict[str, str], name: str, what: str, *entries: str, **more: Any) -> Any:
    fields = {"do": what, "entries": "\n".join(entries), **more}
    return hub.client.post(f"/toolsets/{name}", data=fields, headers={**who, "Accept": "application/json"})


def save(hub: Hub, who: dict[str, str], fields: Any, name: str = "mine", action: str = "save", **more: str) -> Any:
    address = "new" if not (hub.servers / f"{name}.json").exists() else name
    sent = {"fields": json.dumps(fields), "name": name, "action": action, **more}
    return hub.client.post(f"/toolsets/{address}", data=sent, headers={**who, "Accept": "text/html"})


def stored(hub: Hub, name: str = "mine") -> Any:
    file = hub.servers / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def call(hub: Hub, who: dict[str, str], tool: str, **arguments: Any) -> str:
    return json.dumps(hub.modern("mine", "tools/call", {"name": tool, "arguments": arguments}, headers=who).last)


def test_a_maker_makes_and_changes_a_toolset_that_gives_no_rights(hub: Hub, ann: dict[str, str]) -> None:
    made = do(hub, ann, "mine", "new", "git.status", "time.now", title="Mine")
    assert made.status_code == 200 and [one["name"] for one in made.json["tools"]] == ["status", "now"]
    shape = json.dumps({"new_name": "clock", "arguments": {"zone": {"value": "UTC"}}})
    assert do(hub, ann, "mine", "shape", tool="now", shape=shape).status_code == 200
    assert stored(hub) == {
        **{"kind": "toolset", "rights": "caller", "title": "Mine", "include": ["git.status"]},
        "tools": {"clock": {"from": "time.now", "arguments": {"zone": {"value": "UTC"}}}},
    }
    ben = new_key(hub, "ben")
    assert "noon in UTC" in call(hub, ann, "clock") and "noon in UTC" in call(hub, ben, "clock")
    assert "clean" in call(hub, ann, "status") and "clean" not in call(hub, ben, "status")
    page = hub.client.get("/toolsets/mine", headers={**ann, "Accept": "text/html"})
    assert page.status_code == 200 and "clock" in page.text and "Save" in page.text
    assert "hidden." not in page.text and "read_secret" not in page.text
    listed = read_json(hub.client.get("/toolsets.json", headers=ann))["toolsets"]
    assert [one["name"] for one in listed] == ["mine", "theirs"] and "secret" not in json.dumps(listed[0])
    assert do(hub, ann, "mine", "remove", "clock").status_code == 200
    author = hub.catalogue.store.names.past("servers/mine", 1)
    assert not author or author[0].who != "operator"


def test_a_maker_saves_the_form_of_the_page(hub: Hub, ann: dict[str, str]) -> None:
    assert hub.client.get("/toolsets/new", headers={**ann, "Accept": "text/html"}).status_code == 200
    ticked = {"choose:git.status": "on", "title": "Mine"}
    assert save(hub, ann, {"kind": "toolset"}, **ticked).status_code == 303
    assert stored(hub) == {"kind": "toolset", "title": "Mine", "include": ["git.status"], "rights": "caller"}
    tried = save(hub, ann, stored(hub), action="try:status")
    assert tried.status_code == 200 and "clean" in tried.text


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "toolset", "rights": "definer", "include": ["git.status"]},
        {"kind": "toolset", "include": ["*"]},
        {"kind": "toolset", "include": ["*.*"]},
        {"kind": "toolset", "include": ["git"]},
        {"kind": "toolset", "include": ["git.*"]},
        {"kind": "toolset", "include": ["hidden.read_secret"]},
        {"kind": "toolset", "include": ["git.statu[s]"]},
        {"kind": "toolset", "include": ["git.status"], "exclude": ["git.fail"]},
        {"kind": "toolset", "tools": {"status": "hidden.read_secret"}},
        {"kind": "toolset", "tools": {"status": {"from": "hidden.read_secret", "result": "."}}},
        {"kind": "toolset", "tools": {"status": "theirs.all"}, "rights": "definer"},
        {"kind": "toolset", "tools": {"status": "git.status"}, "resources": ["*://*"]},
        {"kind": "toolset", "tools": {"status": "git.status"}, "prompts": ["*.*"]},
        {"kind": "toolset", "tools": {"status": "git.status"}, "resources": ["star.star://*"]},
        {"kind": "toolset", "include": ["git.status"], "activity": "none"},
        {"kind": "toolset", "include": ["git.status"], "limits": {"inline": 1}},
        {"kind": "toolset", "include": ["git.status"], "listing": {"scripts": "only"}},
        {"kind": "toolset", "include": ["git.status"], "scripts": "only"},
        {"kind": "toolset", "include": ["git.status"], "timeout": 86400},
        {"kind": "python", "include": ["git.status"]},
        {"kind": "upstream", "address": "mcp+stdio:/bin/sh"},
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_no_fields_give_a_maker_more(hub: Hub, ann: dict[str, str], fields: Any, is_there: bool) -> None:
    if is_there:
        assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    before = stored(hub)
    answer = save(hub, ann, fields)
    assert answer.status_code in (400, 403) and stored(hub) == before, answer.text
    assert "the secret text" not in answer.text and "delete_secret" not in answer.text
    put = do(hub, ann, "mine", "put", fields=json.dumps(fields))
    assert put.status_code in (400, 403) and stored(hub) == before, put.text
    assert "the secret text" not in put.text and "delete_secret" not in put.text
    tried = save(hub, ann, fields, action="try:status")
    assert "the secret text" not in tried.text and stored(hub) == before
    assert "the secret text" not in call(hub, ann, "status")


@pytest.mark.parametrize("entry", ["hidden.read_secret", "hidden.*", "hidden", "*", "*.read_secret", "time.status"])
def test_no_command_chooses_what_a_maker_may_not_use(hub: Hub, ann: dict[str, str], entry: str) -> None:
    assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    refused = do(hub, ann, "mine", "add", entry)
    assert refused.status_code == 400 and stored(hub)["include"] == ["git.status"]
    assert "read_secret" not in refused.text.replace(entry, "") and "delete_secret" not in refused.text


def test_a_maker_changes_no_other_toolset_and_none_that_gives_rights(hub: Hub, ann: dict[str, str]) -> None:
    for name in ("other", "release", "mcp", "hidden"):
        assert do(hub, ann, name, "new", "git.status").status_code in (401, 403, 404), name
        assert do(hub, ann, name, "add", "git.status").status_code in (401, 403, 404), name
    assert do(hub, ann, "theirs", "add", "git.status").status_code == 400
    assert do(hub, ann, "theirs", "shape", tool="all", shape='{"new_name": "x"}').status_code == 400
    assert (
        save(hub, ann, {"kind": "toolset", "rights": "caller", "include": ["git.status"]}, "theirs").status_code == 400
    )
    assert json.dumps(stored(hub, "theirs")) == json.dumps(json.loads(OF_OPERATOR))
    assert do(hub, ann, "git", "new", "time.now").status_code == 400, "a server of another kind has this name"
    assert do(hub, ann, "git", "add", "time.now").status_code == 400
    assert not (hub.servers / "git.json").exists() and not (hub.servers / "mcp.json").exists()


def test_a_form_for_one_name_does_not_save_under_another(hub: Hub, ann: dict[str, str]) -> None:
    fields = {"kind": "toolset", "include": ["git.status"]}
    assert save(hub, ann, fields, "other").status_code in (401, 403, 404)
    assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    sent = {"fields": json.dumps(fields), "name": "mine", "action": "save"}
    assert hub.client.post("/toolsets/theirs", data=sent, headers={**ann, "Accept": "text/html"}).status_code == 400
    assert hub.client.post("/toolsets/other", data=sent, headers={**ann, "Accept": "text/html"}).status_code in (
        401,
        404,
    )
    assert stored(hub, "other") is None


def test_a_maker_puts_a_whole_toolset_and_rolls_it_back(hub: Hub, ann: dict[str, str]) -> None:
    for fields in ({"include": ["git.status"]}, {"include": ["time.now"], "title": "Mine"}):
        made = do(hub, ann, "mine", "put", fields=json.dumps({"kind": "toolset", **fields}))
        assert made.status_code == 200, made.text
        assert stored(hub) == {"kind": "toolset", "rights": "caller", **fields}
    assert do(hub, ann, "mine", "rollback").status_code == 200
    assert stored(hub)["include"] == ["git.status"]
    shown = read_json(hub.client.get("/toolsets/mine.json", headers=ann))
    assert shown["definition"] == stored(hub) and len(shown["versions"]) == 3


def test_a_maker_rolls_back_to_no_version_that_gives_more(hub: Hub, ann: dict[str, str]) -> None:
    """The name was another server of the operator before, and a toolset that gave rights."""
    write(hub, "mine.py", SECRET)
    (hub.servers / "mine.py").unlink()
    write(hub, "mine.json", toolset(include=["hidden.read_secret"]))
    write(hub, "mine.json", toolset(include=["hidden.read_secret"], rights="caller"))
    write(hub, "mine.json", toolset(include=["git.status"], rights="caller"))
    before = stored(hub)
    shown = hub.client.get("/toolsets/mine.json", headers=ann)
    assert "hidden" not in shown.text and "secret" not in shown.text
    versions = read_json(shown)["versions"]
    known = hub.catalogue.store.names.past("servers/mine")
    assert len(versions) < len(known)
    for number in range(len(known) + 2):
        answer = do(hub, ann, "mine", "rollback", version=str(number))
        if number != versions[0]["number"]:
            assert answer.status_code in (400, 403, 404), (number, answer.text)
        assert stored(hub) == before and "delete_secret" not in answer.text
    for cid in {one.cid for one in known if one.cid} - {known[0].cid}:
        assert do(hub, ann, "mine", "rollback", version=cid).status_code in (400, 403, 404)
        assert stored(hub) == before


def test_a_maker_puts_and_rolls_back_no_other_name(hub: Hub, ann: dict[str, str]) -> None:
    fields = json.dumps({"kind": "toolset", "rights": "caller", "include": ["git.status"]})
    for name in ("other", "hidden", "mcp", "git", "theirs"):
        assert do(hub, ann, name, "put", fields=fields).status_code in (400, 401, 403, 404), name
        assert do(hub, ann, name, "rollback", version="1").status_code in (400, 401, 403, 404), name
    assert stored(hub, "other") is None and json.dumps(stored(hub, "theirs")) == json.dumps(json.loads(OF_OPERATOR))


@pytest.mark.parametrize("fields", ["[]", "{", "null", '{"kind": "toolset"}', "1", '{"include": ["git.status"]}'])
def test_what_is_no_toolset_is_not_put(hub: Hub, ann: dict[str, str], fields: str) -> None:
    answer = do(hub, ann, "mine", "put", fields=fields)
    assert answer.status_code == 400 and stored(hub) is None, answer.text


def test_no_other_way_changes_the_configuration_for_a_maker(hub: Hub, ann: dict[str, str]) -> None:
    assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    text = toolset(include=["hidden.*"])
    for address in ("/variables/mcps", "/variables/listing", "/variables/access"):
        assert hub.client.put(address, data=text, headers=ann).status_code in (401, 403, 404), address
    for address in ("/servers/mine/edit", "/servers/mine/settings", "/servers/mine/switch", "/servers/new"):
        answer = hub.client.post(address, data={"source": text, "text": text, "name": "mine"}, headers=ann)
        assert answer.status_code in (400, 401, 403, 404, 405), address
    assert stored(hub)["include"] == ["git.status"]


def test_a_server_that_comes_later_gives_its_tools_to_those_alone_who_may_use_them(
    hub: Hub, ann: dict[str, str]
) -> None:
    assert do(hub, ann, "mine", "new", "git.status", "time.now").status_code == 200
    write(hub, "time.py", SECRET.replace("read_secret", "now"))
    set_grants(hub, {"grants": [row for row in GRANTS if "time.now" not in row["on"]]})
    assert "the secret text" not in call(hub, ann, "now")
    assert "the secret text" in call(hub, new_key(hub, "ben"), "now")


def test_a_toolset_of_the_operator_keeps_its_fields_when_a_maker_changes_it(hub: Hub, ann: dict[str, str]) -> None:
    """What the operator wrote into it stays, patterns included."""
    fields = {"rights": "caller", "include": ["time.*"], "activity": "keep", "exclude": ["*.delete_*"]}
    write(hub, "mine.json", toolset(**fields))
    assert do(hub, ann, "mine", "add", "git.status").status_code == 200
    assert stored(hub) == {"kind": "toolset", **fields, "include": ["time.*", "git.status"]}
    assert save(hub, ann, {**stored(hub), "activity": "none"}).status_code in (400, 403)
    assert save(hub, ann, {**stored(hub), "exclude": []}).status_code in (400, 403)


def test_a_grant_that_ends_ends_the_changes_and_not_the_toolset(hub: Hub, ann: dict[str, str]) -> None:
    assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    set_grants(hub, {"grants": GRANTS[1:]})
    assert do(hub, ann, "mine", "add", "time.now").status_code in (401, 403, 404)
    assert hub.client.get("/toolsets/mine.json", headers=ann).status_code == 404
    assert "clean" in call(hub, ann, "status")
    set_grants(hub, {"grants": GRANTS, "denials": [{"to": ["key:ann"], "on": ["mine"]}]})
    assert do(hub, ann, "mine", "add", "time.now").status_code in (401, 403, 404)


def test_a_key_with_scopes_makes_no_toolset(hub: Hub) -> None:
    set_grants(hub, {"grants": [{**row, "to": ["key:narrow", *row["to"]]} for row in GRANTS]})
    narrow = new_key(hub, "narrow", ["call", "read", "see"])
    assert do(hub, narrow, "mine", "new", "git.status").status_code in (401, 403, 404)
    assert hub.client.get("/toolsets.json", headers=narrow).status_code == 404


def test_a_maker_replaces_no_script_of_the_operator_and_adds_none(hub: Hub, ann: dict[str, str]) -> None:
    """A script runs with the rights of each caller, so that a maker would act as the callers."""
    fields = {"rights": "caller", "include": ["git.status"], "tools": {"go": {"script": SCRIPT}}}
    write(hub, "mine.json", toolset(**fields))
    before = stored(hub)
    other = SCRIPT.replace('"x"', "await mine.status()")
    for answer in (
        do(hub, ann, "mine", "shape", tool="go", shape=json.dumps({"script": other})),
        do(hub, ann, "mine", "script", tool="more", script=SCRIPT.replace("go", "more")),
        save(hub, ann, {**before, "tools": {"go": {"script": other}}}),
        save(hub, ann, {**before, "tools": {**before["tools"], "more": {"script": SCRIPT}}}),
        save(
            hub, ann, {**before, "tools": {"go": {"script": SCRIPT}, "more": {"from": "git.status", "script": SCRIPT}}}
        ),
    ):
        assert answer.status_code in (400, 403) and "only the operator writes scripts" in answer.text, answer.text
        assert stored(hub) == before
    assert do(hub, ann, "mine", "add", "time.now").status_code == 200
    assert stored(hub) == {**before, "include": ["git.status", "time.now"]}


def test_a_maker_is_told_that_only_the_operator_writes_scripts(hub: Hub, ann: dict[str, str]) -> None:
    assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    refused = do(hub, ann, "mine", "script", tool="go", script=SCRIPT)
    assert refused.status_code in (400, 403) and "only the operator writes scripts" in refused.text


@pytest.mark.parametrize("is_there", [False, True])
def test_a_form_opens_no_content_that_the_toolset_does_not_name(hub: Hub, ann: dict[str, str], is_there: bool) -> None:
    if is_there:
        assert do(hub, ann, "mine", "new", "git.status").status_code == 200
    cid = hub.catalogue.store.blobs.put(SECRET.encode())
    fields = {"kind": "toolset", "rights": "caller", "tools": {"x": {"script": f"cid://{cid}"}}}
    answer = save(hub, ann, fields, action="check")
    assert answer.status_code == 200 and str(cid) in answer.text
    assert "the secret text" not in answer.text
