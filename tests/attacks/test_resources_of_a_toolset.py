"""A mounted server answers for others in a toolset, or a caller reads more by a toolset than it gives.

Source: docs/toolsets.md, Resources and prompts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.attacks.lying_server import HONEST, LIE
from tests.hubs import Hub, modern_request, sse_messages
from tests.kinds.toolset.sets import problems, toolset
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("lying_server.py")
SKILL = "---\nname: guide\ndescription: A guide.\n---\nRead on.\n"
FILES = {
    "pages.json": json.dumps({"resources": {"p": {"uri": "page://of/the/hub", "name": "p", "text": HONEST}}}),
    "guide.json": json.dumps({"skills": {"guide": {"SKILL.md": {"text": SKILL}, "more.md": {"text": HONEST}}}}),
    "hidden.json": json.dumps({"resources": {"h": {"uri": "hidden://h", "name": "h", "text": "hidden text"}}}),
    "desk.json": toolset(
        resources=["notes://*", "page://*", "skill://*", "https://*", "a_liar.*"], prompts=["*.*"], exclude=["hidden"]
    ),
}


def mount(role: str) -> str:
    address = f"mcp+stdio:{sys.executable} -S {PROGRAM} {role}"
    return json.dumps({"kind": "upstream", "address": address, "era": "legacy"})


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("desk"), {**FILES, "z_honest.json": mount("honest")})
    until(lambda: "notes://first" in found.catalogue.find("desk").resources, "the honest server is listed")
    (found.servers / "a_liar.json").write_text(mount("liar"))
    until(lambda: "own://listed" in found.catalogue.find("desk").resources, "the liar is listed")
    set_grants(found, {"grants": [{"to": ["key:ann"], "may": ["call", "read"], "on": ["desk"]}]})
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def read(hub: Hub, uri: str, headers: dict[str, str]) -> str:
    last = hub.modern("desk", "resources/read", {"uri": uri}, headers=headers).last
    return str(last["result"]["contents"][0]["text"] if "result" in last else last["error"]["message"])


@pytest.mark.parametrize(
    "uri",
    [
        *("notes://first", "notes://unlisted", "https://honest.example/page", "https://honest.example/other"),
        *("page://of/the/hub", "skill://guide/more.md"),
    ],
)
def test_each_uri_of_a_toolset_is_read_from_its_owner(hub: Hub, ann: dict[str, str], uri: str) -> None:
    text = read(hub, uri, ann)
    assert HONEST in text and LIE not in text


@pytest.mark.parametrize(
    "uri",
    [
        *("notes://a/b", "page://of/nobody", "server://nothing", "SERVER://big", "variable://secret", "cid://x"),
        *("skill://guide/none.md", "skill://other/SKILL.md", "ui://page.html", "strange://x", "hidden://h"),
        *("server://", "server://hidden", "server://z_honest"),
    ],
)
def test_a_mounted_server_answers_for_no_other_uri_of_a_toolset(hub: Hub, ann: dict[str, str], uri: str) -> None:
    text = read(hub, uri, ann)
    assert LIE not in text and "hidden text" not in text
    assert not any(f'"name":"{name}"' in text for name in ("hidden", "z_honest", "a_liar"))


def test_the_problems_of_a_toolset_say_what_is_not_listed(hub: Hub) -> None:
    reasons = [one.reason for one in hub.catalogue.find("desk").problems]
    assert "notes://first of a_liar is not listed: z_honest had it first" in reasons
    assert any(one.startswith("{+any} of a_liar is not listed") for one in reasons)
    assert problems(hub, "desk").keys() == {"resources"}


def test_contents_of_a_mounted_server_stand_under_the_uri_that_was_read(hub: Hub, ann: dict[str, str]) -> None:
    contents = hub.modern("desk", "resources/read", {"uri": "own://listed"}, headers=ann).result["contents"]
    assert [one["uri"] for one in contents] == ["own://listed"] * 3


def test_a_subscription_at_a_toolset_is_made_at_the_owner_and_hears_of_it_alone(hub: Hub, ann: dict[str, str]) -> None:
    uris = ["notes://first", "own://listed", "hidden://h", "page://of/the/hub"]
    message, headers = modern_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    stream = hub.stream("desk", message, {**headers, **ann})
    heard = (message for frame in stream for message in sse_messages(frame))
    assert next(heard)["method"] == "notifications/subscriptions/acknowledged"
    hub.catalogue.hub.updated("hidden", "hidden://h")
    hub.catalogue.hub.updated("a_liar", "notes://first")
    hub.catalogue.hub.updated("a_liar", "page://of/the/hub")
    hub.catalogue.hub.updated("z_honest", "own://listed")
    hub.catalogue.hub.updated("z_honest", "notes://first")
    assert next(heard)["params"]["uri"] == "notes://first"
    stream.close()


def test_who_has_the_right_on_a_toolset_alone_gets_no_uri_by_the_origins(hub: Hub, ann: dict[str, str]) -> None:
    for server in ("z_honest", "a_liar", "guide", "pages", "hidden"):
        assert "error" in hub.modern(server, "resources/list", headers=ann).last
    listed = json.dumps(hub.modern("", "resources/list", headers=ann).result["resources"])
    assert "notes://first" in listed and "hidden" not in listed
    assert HONEST in str(hub.modern("", "resources/read", {"uri": "notes://first"}, headers=ann).result)
