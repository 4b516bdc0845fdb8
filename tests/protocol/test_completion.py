"""completion/complete where a function of the definition gives the values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.client.bad import INFO, Handler, Json, serving
from tests.hubs import Hub
from tests.waiting import until

SOURCE = """
def page(book: str, number: str) -> str:
    return book + number


def _books(value, arguments, context):
    return ["Iliad", "Odyssey", context.server]


def _pages(value: str, arguments: dict) -> list[str]:
    return [f"{arguments.get('book', 'any')}-{n}" for n in range(150)]


def _wrong(value, arguments):
    return [1, 2]


def _broken(value, arguments):
    raise ValueError("no books today")
"""

URI = "book://{book}/{number}"
CONFIG = {
    "resource_templates": {"page": {"uriTemplate": URI, "function": "page"}},
    "prompts": {"ask": {"arguments": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "messages": [{"content": "x"}]}},
    "completions": {
        URI: {"book": {"function": "_books"}, "number": {"function": "_pages"}},
        "ask": {"a": {"function": "_wrong"}, "b": {"function": "_broken"}, "c": {"function": "_nowhere"}},
    },
}


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"books.py": SOURCE, "books.mcp.json": orjson.dumps(CONFIG).decode()}
    hub = Hub(tmp_path_factory.mktemp("books"), files, isolation=request.param)
    yield hub
    hub.close()


def completed(hub: Hub, name: str, value: str = "", **others: str) -> dict[str, Any]:
    params = {"ref": {"type": "ref/resource", "uri": URI}, "argument": {"name": name, "value": value}}
    result = hub.legacy("books", "completion/complete", {**params, "context": {"arguments": others}}).result
    return dict(result["completion"])


def test_a_function_gives_the_values_and_the_matching_ones_are_returned(hub: Hub) -> None:
    assert completed(hub, "book") == {"values": ["Iliad", "Odyssey", "books"], "total": 3, "hasMore": False}
    assert completed(hub, "book", "ody")["values"] == ["Odyssey"]


def test_it_gets_the_other_arguments_and_at_most_a_hundred_values_are_returned(hub: Hub) -> None:
    found = completed(hub, "number", book="Iliad")
    assert (found["values"][0], len(found["values"]), found["total"], found["hasMore"]) == ("Iliad-0", 100, 150, True)
    assert completed(hub, "number", "ANY-14")["values"][:2] == ["any-14", "any-140"]


@pytest.mark.parametrize(("name", "why"), [("a", "no list of strings"), ("b", "no books today"), ("c", "_nowhere")])
def test_a_function_that_fails_is_an_error_that_says_why(hub: Hub, name: str, why: str) -> None:
    params = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": name, "value": ""}}
    assert why in hub.legacy("books", "completion/complete", params).error["message"]


HIDDEN = {
    "hidden.py": SOURCE,
    "hidden.mcp.json": orjson.dumps({**CONFIG, "isolation": "inline"}).decode(),
    "shown.json": orjson.dumps({"kind": "toolset", "resources": ["hidden.*"], "prompts": ["hidden.*"]}).decode(),
}
SHOWN = {"to": ["key:ann"], "may": ["call", "read"], "on": ["shown"]}


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Hub]:
    hub = team_hub(tmp_path, HIDDEN)
    set_grants(hub, {"grants": [SHOWN]})
    yield hub
    hub.close()


@pytest.mark.parametrize(("name", "why"), [("a", "_wrong"), ("b", "no books today"), ("c", "_nowhere")])
def test_a_function_behind_a_toolset_that_fails_names_neither_itself_nor_its_server(
    team: Hub, name: str, why: str
) -> None:
    params = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": name, "value": ""}}
    message = team.modern("shown", "completion/complete", params, headers=new_key(team, "ann")).error["message"]
    assert message == "there are no suggestions now: the server behind this entry failed"
    assert why not in message


def test_suggestions_of_a_function_behind_a_toolset_count_on_its_server(team: Hub) -> None:
    set_grants(team, {"grants": [SHOWN], "quotas": [{"to": ["key:ann"], "on": ["hidden"], "calls_per_minute": 2}]})
    params = {"ref": {"type": "ref/resource", "uri": URI}, "argument": {"name": "book", "value": "i"}}
    ann = new_key(team, "ann")
    asked = [team.modern("shown", "completion/complete", params, headers=ann) for _ in range(3)]
    assert [one.result["completion"]["values"] for one in asked[:2]] == [["Iliad"], ["Iliad"]]
    refused = asked[2].error["message"]
    assert "too many calls of this entry" in refused and "hidden" not in refused


def answer_as_books(handler: Handler, body: Json) -> bool:
    """Answer as a server with one prompt whose argument it completes."""
    capabilities: Json = {"prompts": {}, "completions": {}}
    answers = {
        "initialize": {**INFO, "capabilities": capabilities},
        "prompts/list": {"prompts": [{"name": "ask", "arguments": [{"name": "a"}]}]},
        "completion/complete": {"completion": {"values": ["Iliad"], "total": 1}},
    }
    if body["method"] in answers:
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": answers[body["method"]]})
    return body["method"] in answers


def test_suggestions_of_a_mounted_server_behind_a_toolset_count_on_it(tmp_path: Path) -> None:
    with serving() as start:
        mount = {"kind": "upstream", "address": start(first=answer_as_books).url, "era": "legacy"}
        shown = {"kind": "toolset", "prompts": ["far.*"]}
        hub = team_hub(tmp_path, {"far.json": orjson.dumps(mount).decode(), "shown.json": orjson.dumps(shown).decode()})
        try:
            until(lambda: "ask" in hub.catalogue.find("shown").prompts, "the prompt of the mounted server")
            quota = {"to": ["key:ann"], "on": ["far"], "calls_per_minute": 2}
            set_grants(hub, {"grants": [SHOWN], "quotas": [quota]})
            params = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "a", "value": "i"}}
            ann = new_key(hub, "ann")
            asked = [hub.modern("shown", "completion/complete", params, headers=ann) for _ in range(3)]
            assert [one.result["completion"]["values"] for one in asked[:2]] == [["Iliad"], ["Iliad"]]
            refused = asked[2].error["message"]
            assert "too many calls of this entry" in refused and "far" not in refused
        finally:
            hub.close()


FILES = """
def file(path: str) -> str:
    return path


def _paths(value, arguments):
    return ["public/a", "public/b", "secret/key", "Secret/other", "drafts/c"]
"""
FILES_URI = "files://{+path}"
FILES_CONFIG = {
    "isolation": "inline",
    "resource_templates": {"file": {"uriTemplate": FILES_URI, "function": "file"}},
    "completions": {FILES_URI: {"path": {"function": "_paths"}}},
}


@pytest.mark.parametrize("endpoint", ["files", "", "desk"])
def test_no_value_leads_to_a_uri_that_a_denial_or_a_toolset_keeps_from_the_caller(
    tmp_path: Path, endpoint: str
) -> None:
    """The number of the values counts those alone that the caller gets."""
    sets = {"kind": "toolset", "resources": ["files.*"], "exclude": ["files://drafts/*"]}
    hub = team_hub(
        tmp_path,
        {
            "files.py": FILES,
            "files.mcp.json": orjson.dumps(FILES_CONFIG).decode(),
            "desk.json": orjson.dumps(sets).decode(),
        },
    )
    grants = [{"to": ["*"], "may": ["read"], "on": ["files" if endpoint != "desk" else "desk"]}]
    set_grants(hub, {"grants": grants, "denials": [{"to": ["key:ann"], "on": ["files.files://secret/*"]}]})
    params = {"ref": {"type": "ref/resource", "uri": FILES_URI}, "argument": {"name": "path", "value": ""}}
    found = [
        hub.modern(endpoint, "completion/complete", params, headers=new_key(hub, name)).result["completion"]
        for name in ("ann", "ben")
    ]
    drafts = [] if endpoint == "desk" else ["drafts/c"]
    assert found[0]["values"] == ["public/a", "public/b", *drafts] and found[0]["total"] == 2 + len(drafts)
    assert found[1]["values"] == ["public/a", "public/b", "secret/key", "Secret/other", *drafts]
    hub.close()


def answer_as_notes(handler: Handler, body: Json) -> bool:
    """Answer as a server with one template whose variable it completes."""
    capabilities: Json = {"resources": {}, "completions": {}}
    answers = {
        "initialize": {**INFO, "capabilities": capabilities},
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": [{"name": "note", "uriTemplate": "notes://{folder}/{name}"}]},
        "completion/complete": {"completion": {"values": ["public", "secret", "other"], "total": 3}},
    }
    if body["method"] in answers:
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": answers[body["method"]]})
    return body["method"] in answers


@pytest.mark.parametrize("endpoint", ["far", "", "shown"])
def test_no_value_of_a_mounted_server_leads_to_a_denied_uri(tmp_path: Path, endpoint: str) -> None:
    """The other variables of the template are not known yet: a denial of the whole folder covers its name."""
    with serving() as start:
        mount = {"kind": "upstream", "address": start(first=answer_as_notes).url, "era": "legacy"}
        shown = {"kind": "toolset", "resources": ["far.*"]}
        hub = team_hub(tmp_path, {"far.json": orjson.dumps(mount).decode(), "shown.json": orjson.dumps(shown).decode()})
        until(lambda: hub.catalogue.find("shown").templates, "the template of the mounted server")
        denials = [{"to": ["key:ann"], "on": ["far.notes://secret/*", "far.notes://other/one"]}]
        set_grants(hub, {"grants": [{"to": ["*"], "may": ["read"], "on": ["far", "shown"]}], "denials": denials})
        reference = {"type": "ref/resource", "uri": "notes://{folder}/{name}"}
        params: Json = {"ref": reference, "argument": {"name": "folder", "value": ""}}
        ann, ben = new_key(hub, "ann"), new_key(hub, "ben")
        found = hub.modern(endpoint, "completion/complete", params, headers=ann).result["completion"]
        assert found["values"] == ["public", "other"] and "total" not in found
        assert hub.modern(endpoint, "completion/complete", params, headers=ben).result["completion"]["total"] == 3
        params["context"] = {"arguments": {"name": "one"}}
        found = hub.modern(endpoint, "completion/complete", params, headers=ann).result["completion"]
        assert found["values"] == ["public"]
        hub.close()
