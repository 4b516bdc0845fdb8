"""One key writes into the logs of rooms without end, each within its rights: as a member, as an owner, as a client.

What is left is counted in the store itself, entry by entry.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from patchbay.catalogue.contents.ledger import ROOM_BYTES, Used
from patchbay.catalogue.contents.tallies import SHARE_OF_LIMIT
from patchbay.events import Failed
from patchbay.rooms.rooms import Rooms
from patchbay.topics import LEDGERS, ROOM_CONTENTS, ROOM_LOGS, ROOM_WRITERS
from tests.access.team import set_grants
from tests.attacks.leftovers import attacker, left, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub
from tests.rooms.people import READ, envelope, hello

Json = dict[str, Any]
Headers = dict[str, str]

MOST = 512 * 1024
"""The limit of each key, in bytes."""

TEXT_BYTES = 20_000
ATTEMPTS = 60
UNCOUNTED = MOST // SHARE_OF_LIMIT
"""What one process may not have counted yet in one room."""

_NUMBERS = count()


def limit(hub: Hub, **limits: int) -> None:
    """Let each caller do everything within these limits."""
    everything = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
    set_grants(hub, {"grants": everything, "quotas": [{"to": ["*"], "room_bytes": MOST, **limits}]})


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, room_rate=1_000_000.0)
    limit(hub)
    yield hub
    rooms(hub).close()
    hub.close()


class Member:
    """A member of a room that posts its envelopes."""

    def __init__(self, hub: Hub, room: str, key: Headers) -> None:
        self._hub, self._path = hub, f"/rooms/{room}"
        joined = hub.client.post(self._path, json={"type": "hello", "payload": hello()}, headers=key)
        assert joined.status_code == 200, joined.text
        self.headers = key | {"Enso-Session": joined.headers["Enso-Session"]}

    def says(self, type: str, payload: Json, **more: Any) -> str:
        """Send an envelope; return the refusal with the type of its answer, empty for an accepted one."""
        sent = self._hub.client.post(self._path, json=envelope(type, payload, **more), headers=self.headers)
        answer = orjson.loads(sent.data)
        if not (refusal := str(answer.get("refusal", ""))):
            return ""
        assert sent.status_code == 403
        told = answer["answers"][0]
        assert told["payload"]["error"] == refusal
        return f"{told['type']}: {refusal}"

    def fills(self) -> str:
        """Say a text of TEXT_BYTES; return the refusal."""
        return self.says("chat.message", {"text": str(next(_NUMBERS)).ljust(TEXT_BYTES, "x")})


def make_room(hub: Hub, key: Headers, name: str) -> None:
    made = hub.client.put(f"/rooms/{name}", json={}, headers=key)
    assert made.status_code == 201, made.text


def written(hub: Hub) -> int:
    """The bytes of all logs of rooms, with the contents of their entries."""
    return left(hub.catalogue.store, ROOM_LOGS, ROOM_CONTENTS).bytes


def counted(hub: Hub, name: str) -> int:
    """What the account of a key says that it has written."""
    used: Used = hub.catalogue.contents.results.ledger.used(f"key:{name}", ROOM_BYTES)
    return used.bytes


def test_what_one_key_writes_into_all_rooms_has_a_limit(hub: Hub) -> None:
    """48.4: 60 texts of 20 kB in three rooms leave 512 KiB, and another key still writes."""
    key, other = attacker(hub), attacker(hub, "other")
    members = []
    for number in range(3):
        make_room(hub, key, f"flood{number}")
        members.append(Member(hub, f"flood{number}", key))
    refusals = [members[number % 3].fills() for number in range(ATTEMPTS)]
    first = refusals.index(next(filter(None, refusals)))
    sentence = f"room.refused: each caller may have {MOST} bytes in the logs of rooms: delete a room"
    assert all(one.startswith(sentence) for one in refusals[first + 4 :])
    assert MOST * 3 / 4 < written(hub) <= MOST + 3 * UNCOUNTED
    before = written(hub)
    assert Member(hub, "flood0", other).fills() == ""
    assert written(hub) > before + TEXT_BYTES


def test_a_deleted_room_gives_its_bytes_back(hub: Hub) -> None:
    key, other = attacker(hub), attacker(hub, "other")
    make_room(hub, key, "mine")
    mine, guest = Member(hub, "mine", key), Member(hub, "mine", other)
    for _ in range(ATTEMPTS // 2):
        mine.fills()
        guest.fills()
    assert mine.fills() and guest.fills()
    assert counted(hub, "attacker") > MOST / 2 and counted(hub, "other") > MOST / 2
    assert left(hub.catalogue.store, ROOM_WRITERS).entries > 2
    assert delete(hub, key, "mine") == 204
    assert counted(hub, "attacker") == counted(hub, "other") == 0
    assert left(hub.catalogue.store, ROOM_WRITERS, ROOM_LOGS, ROOM_CONTENTS).entries == 0
    assert left(hub.catalogue.store, LEDGERS).entries <= 3  # one row for each account
    make_room(hub, key, "again")
    assert Member(hub, "again", key).fills() == ""


def rooms(hub: Hub) -> Rooms:
    found: Rooms = hub.app.parts.dispatcher.services.rooms
    return found


def delete(hub: Hub, key: Headers, name: str) -> int:
    """Delete a room, whose newest entry its state names; return the status."""
    room = rooms(hub).open(name)
    room.state()
    answer = hub.client.delete(f"/rooms/{name}", headers=key | {"If-Match": f'"{room.head}"'})
    return answer.status_code


def test_texts_of_a_client_that_has_not_joined_count_too(hub: Hub) -> None:
    """An MCP client writes into a log by the arguments of its calls, and waits for no result."""
    owner = attacker(hub, "owner")
    make_room(hub, owner, "tools")
    assert Member(hub, "tools", owner).says("mcp.announce", {"serverId": "fs", "tools": [READ]}) == ""
    before = written(hub)
    for _ in range(ATTEMPTS):
        call = rooms(hub).open("tools").call("fs", "read", {"text": "x" * TEXT_BYTES}, "key:attacker", 60)
        first = next(call)
        call.close()  # as a client does that closes its connection
        if isinstance(first, Failed):
            break
    assert isinstance(first, Failed)
    assert f"each caller may have {MOST} bytes in the logs of rooms" in first.message
    assert MOST * 3 / 4 < written(hub) - before <= MOST + UNCOUNTED + 100_000  # the ends of calls are always logged


def test_the_caller_of_a_result_that_is_not_stored_is_answered(hub: Hub) -> None:
    owner, key = attacker(hub), attacker(hub, "caller")
    make_room(hub, owner, "tools")
    member, caller = Member(hub, "tools", owner), Member(hub, "tools", key)
    assert member.says("mcp.announce", {"serverId": "fs", "tools": [READ]}) == ""
    while not member.fills():
        pass
    call = str(uuid4())
    assert caller.says("tool.call", {"callId": call, "serverId": "fs", "name": "read", "args": {}}) == ""
    refusal = member.says("tool.result", {"callId": call, "ok": True, "result": "x" * TEXT_BYTES})
    assert "bytes in the logs of rooms" in refusal
    said = [one.envelope for one in rooms(hub).open("tools").entries(0, 1000)]
    results = [one["payload"] for one in said if one["type"] == "tool.result"]
    assert [(one["callId"], one["ok"]) for one in results] == [(call, False)]


def test_a_key_has_a_limit_of_bytes_in_a_second(hub: Hub) -> None:
    """48.4: what is not logged counts too, in all rooms and sessions of the key together."""
    limit(hub, room_bytes_per_second=65536)
    key, other = attacker(hub), attacker(hub, "other")
    for room in ("one", "two"):
        make_room(hub, key, room)
    members = [Member(hub, room, key) for room in ("one", "two", "one", "two")]
    stream = {"streamId": "s", "seq": 1, "data": "x" * 200_000}
    refusals = [members[number % 4].says("chat.stream", stream, kind="stream") for number in range(20)]
    refused = [one for one in refusals if one]
    sentence = "room.refused: each caller may send 65536 bytes to rooms in a second; send less"
    assert len(refused) >= 10 and set(refused) == {sentence}
    assert Member(hub, "one", other).fills() == ""


def test_two_nodes_count_what_one_key_writes_together(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """48.4: the limit holds for both nodes together; a room that one node deletes gives its bytes back at the other."""
    with two_nodes(tmp_path, postgresql.new_schema(), room_rate=1_000_000.0) as hubs:
        limit(hubs[0])
        hubs[1].catalogue.refresh()
        key = attacker(hubs[0])
        make_room(hubs[0], key, "mine")
        members = [Member(hub, "mine", key) for hub in hubs]
        refusals = [members[number % 2].fills() for number in range(ATTEMPTS)]
        assert all(refusals[-2:]) and not any(refusals[: ATTEMPTS // 4])
        assert MOST * 3 / 4 < written(hubs[0]) <= MOST + 2 * UNCOUNTED
        assert delete(hubs[1], key, "mine") == 204
        assert counted(hubs[0], "attacker") == counted(hubs[1], "attacker") == 0
        for hub in hubs:
            rooms(hub).close()
