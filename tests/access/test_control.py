"""Access control beyond lists: mounted servers, skills, announcements of other grants, and senders whose rights change.

Sources: ACCESS section 3; issue 16 items 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.principals import LOCAL, OPERATOR, Principal
from tests.access.team import FILES, INLINE, Json, new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request, sse_messages
from tests.interaction.programs import running_hub
from tests.waiting import until

pytestmark = pytest.mark.process

Headers = dict[str, str]
SKILL = "---\nname: {0}\ndescription: How to {0}\n---\n\n# {0}\n"
CRAFTS = {
    "kind": "static",
    "resources": {"note": {"uri": "s://note", "name": "note", "text": "hi"}},
    "skills": {name: {"SKILL.md": {"text": SKILL.format(name)}} for name in ("bake", "weave")},
}


CHAIN = '''"""Tools that call tools that call tools."""


def first(context) -> str:
    """Call the second."""
    return str(context.call("chain", "second"))


def second(context) -> str:
    """Call the third."""
    return str(context.call("lone", "lone"))
'''


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `notes` on another hub, in a process of its own."""
    folder: Path = tmp_path_factory.mktemp("far")
    for name in ("notes.py", "notes.mcp.json"):
        (folder / name).write_text(FILES[name])
    with running_hub(folder / "hub", [folder / "notes.py", folder / "notes.mcp.json"]) as hub:
        yield hub.endpoint("notes")


@pytest.fixture(scope="module")
def hub(far: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    mount = orjson.dumps({"kind": "upstream", "address": far}).decode()
    more = {"far.json": mount, "crafts.json": orjson.dumps(CRAFTS).decode(), "lone.mcp.json": INLINE}
    more |= {"chain.py": CHAIN, "chain.mcp.json": INLINE}
    hub = team_hub(tmp_path_factory.mktemp("near"), page_size=500, files=FILES | more)
    until(lambda: hub.catalogue.find("far").tools, "the tools of the mounted server")
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Headers:
    return new_key(hub, "ann")


def allow(hub: Hub, *on: str, denied: tuple[str, ...] = ()) -> None:
    grants = [{"to": ["key:ann"], "may": ["call", "read"], "on": list(on)}]
    set_grants(hub, {"grants": grants, "denials": [{"to": ["*"], "on": list(denied)}] if denied else []})


def send_request(hub: Hub, headers: Headers, endpoint: str, method: str, **params: Any) -> Json:
    found: Json = hub.modern(endpoint, method, params, headers=headers).last
    return found


def test_a_part_of_a_mounted_server_is_visible(hub: Hub, ann: Headers) -> None:
    allow(hub, "far.search", "far.notes://plan", "far.ask")
    listed = send_request(hub, ann, "far", "tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["search"]
    assert (
        send_request(hub, ann, "far", "tools/call", name="search", arguments={})["result"]["content"][0]["text"]
        == "found x"
    )
    assert send_request(hub, ann, "far", "tools/call", name="delete_note", arguments={})["result"]["isError"] is True
    uris = [one["uri"] for one in send_request(hub, ann, "far", "resources/list")["result"]["resources"]]
    assert uris == ["notes://plan"]
    assert "the plan" in str(send_request(hub, ann, "far", "resources/read", uri="notes://plan"))
    for uri in ("notes://diary", "note://7", "notes://absent"):
        assert "error" in send_request(hub, ann, "far", "resources/read", uri=uri)
    for prompt, works in (("ask", True), ("scold", False)):
        assert ("result" in send_request(hub, ann, "far", "prompts/get", name=prompt)) is works
        reference, argument = {"type": "ref/prompt", "name": prompt}, {"name": "topic", "value": "w"}
        if not works:
            assert "error" in send_request(hub, ann, "far", "completion/complete", ref=reference, argument=argument)


def test_a_template_of_a_mounted_server_is_read_except_for_what_is_denied(hub: Hub, ann: Headers) -> None:
    allow(hub, "far.note://{id}", denied=("far.note://secret*",))
    assert "note 7" in str(send_request(hub, ann, "far", "resources/read", uri="note://7"))
    assert "error" in send_request(hub, ann, "far", "resources/read", uri="note://secret1")
    assert "error" in send_request(hub, ann, "far", "resources/read", uri="notes://plan")


def test_a_template_of_the_hubs_own_server_is_read_except_for_what_is_denied(hub: Hub, ann: Headers) -> None:
    allow(hub, "notes.note://{id}", denied=("notes.note://secret*",))
    assert "note 7" in str(send_request(hub, ann, "notes", "resources/read", uri="note://7"))
    assert "error" in send_request(hub, ann, "notes", "resources/read", uri="note://secret1")


def test_the_skills_of_a_mounted_server_are_shown_to_callers_without_limits(hub: Hub, ann: Headers) -> None:
    allow(hub, "far")
    for method, params in (("skills/list", {}), ("skills/get", {"uri": "skill://x/SKILL.md"})):
        error = send_request(hub, ann, "far", method, **params)["error"]
        assert error["code"] == -32601 and "has no skills" in error["message"]


def test_a_skill_is_listed_and_read_by_the_uri_of_its_file(hub: Hub, ann: Headers) -> None:
    allow(hub, "crafts.skill://bake/*")
    skills = send_request(hub, ann, "crafts", "skills/list")["result"]["skills"]
    assert [one["uri"] for one in skills] == ["skill://bake/SKILL.md"]
    for name, works in (("bake", True), ("weave", False)):
        uri = f"skill://{name}/SKILL.md"
        assert ("result" in send_request(hub, ann, "crafts", "skills/get", uri=uri)) is works
        assert ("result" in send_request(hub, ann, "crafts", "resources/read", uri=uri)) is works
    allow(hub, "crafts.s://note")
    assert "error" in send_request(hub, ann, "crafts", "skills/list")


def test_the_rights_of_a_caller_count_along_a_whole_chain_of_tools(hub: Hub, ann: Headers) -> None:
    for allowed, works in ((("chain", "lone"), True), (("chain",), False), (("chain.first", "lone"), False)):
        allow(hub, *allowed)
        result = send_request(hub, ann, "chain", "tools/call", name="first", arguments={})["result"]
        assert ("alone" in str(result)) is works, allowed


def test_clients_hear_that_the_grants_changed(hub: Hub, ann: Headers) -> None:
    allow(hub, "notes.search")
    message, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream = hub.stream("notes", message, headers | ann)
    next(stream)
    allow(hub, "notes")
    heard: list[str] = []
    for frame in stream:
        heard += [one["method"] for one in sse_messages(frame) if "method" in one]
        if "notifications/tools/list_changed" in heard:
            break
    stream.close()
    assert len(send_request(hub, ann, "notes", "tools/list")["result"]["tools"]) > 1


def test_permissions_of_a_sender_are_read_again_after_each_change(hub: Hub) -> None:
    access = hub.app.parts.dispatcher.services.access
    who = Principal("key:ann")
    allow(hub, "notes.search")
    unchanged, seen = access.unchanged(who), access.catalogue_for(who)
    assert unchanged() and seen is not hub.catalogue and access.catalogue_for(Principal("key:ann")) is seen
    allow(hub, "notes")
    assert not unchanged() and access.catalogue_for(who) is not seen
    assert access.catalogue_for(OPERATOR) is hub.catalogue
    set_grants(hub, None)
    assert access.catalogue_for(who) is access.catalogue_for(LOCAL) is hub.catalogue
    assert access.catalogue_for(Principal("key:ann", scopes=frozenset({"see"}))) is not hub.catalogue


def test_grants_limit_the_callers_of_a_personal_hub_and_not_its_operator(tmp_path: Path) -> None:
    hub = team_hub(tmp_path, access="personal")
    set_grants(hub, {"grants": [{"to": ["local"], "may": ["call"], "on": ["lone"]}]})
    assert [row["name"] for row in (hub.client.get("/servers.json").json or [])] == ["lone"]
    assert hub.modern("notes", "tools/list").status == 404
    token = {"Authorization": f"Bearer {hub.token}"}
    assert hub.modern("notes", "tools/list", headers=token).status == 200
    assert len(hub.client.get("/servers.json", headers=token).json or []) > 3
    hub.close()
