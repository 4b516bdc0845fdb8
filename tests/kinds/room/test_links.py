"""The links of members in the calls of a room: each member's own content reaches the shared server, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.rooms.rooms import Rooms
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Answer, Hub
from tests.rooms.people import Person, serving
from tests.waiting import until

SERVER = "room.desk"
FIELDS = {"text": {"type": "string", "format": "cid"}, "data": {"type": "string", "contentEncoding": "base64"}}
TAKE = {"name": "take", "inputSchema": {"type": "object", "properties": FIELDS}}
UNKNOWN = (
    "cid://bafkreiastggac4dg5mgsu4fzjzxnggjjqwcvzy4q6mq3xw4dearirc6ske?key=nUy0xd8g76_vT5kip99j_RRSIhhduicJ0DcpVrOK32I"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a room in which the key ann shares a server, and the keys ben and cat."""
    found = team_hub(tmp_path_factory.mktemp("links"))
    set_grants(found, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["room.*"]}]})
    rooms = found.app.parts.dispatcher.services.rooms
    assert isinstance(rooms, Rooms)
    owner = Person(rooms.create("desk", "key:ann"), "key:ann")
    owner.announces("fs", TAKE)
    until(lambda: SERVER in {one.name for one in found.catalogue.all()}, "the server of the room")
    until(lambda: "fs__take" in found.catalogue.find(SERVER).tools, "the shared tool")
    with serving(owner, heard):
        yield found
    rooms.close()
    found.close()


def heard(payload: Any) -> Any:
    """What the shared server answers: the arguments that it got."""
    return {"result": {"content": [{"type": "text", "text": str(payload["args"])}]}}


def upload(hub: Hub, content: bytes, key: dict[str, str]) -> str:
    answer = hub.client.post("/blobs", data=content, headers=key)
    assert answer.status_code == 201, answer.text
    return str(answer.json["uri"])  # type: ignore[index]


def take(hub: Hub, key: dict[str, str], **arguments: str) -> Answer:
    return hub.modern(SERVER, "tools/call", {"name": "fs__take", "arguments": arguments}, headers=key)


def test_the_own_link_of_a_member_reaches_the_shared_server_as_its_content(hub: Hub) -> None:
    ben = new_key(hub, "ben")
    link = upload(hub, b"from ben", ben)
    assert take(hub, ben, text=link).text == "{'text': 'from ben'}"
    assert take(hub, ben, data=link).text == "{'data': 'ZnJvbSBiZW4='}"


def test_the_link_of_another_member_answers_as_one_that_is_not_there(hub: Hub) -> None:
    """Also that of the member who shares the server: its content does not reach a call of somebody else."""
    cat, dan, ann = new_key(hub, "cat"), new_key(hub, "dan"), new_key(hub, "ann")
    links = [upload(hub, b"a secret of cat", cat), upload(hub, b"a secret of ann", ann)]
    missing = take(hub, dan, text=UNKNOWN)
    for link in links:
        answer = take(hub, dan, text=link)
        assert answer.text.replace(link, UNKNOWN) == missing.text and "secret" not in answer.text
        assert (answer.status, answer.result["isError"]) == (missing.status, missing.result["isError"])
    assert take(hub, cat, text=links[0]).text == "{'text': 'a secret of cat'}"
