"""One key makes so many rooms that no other key can make one.

Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from werkzeug.test import TestResponse

from patchbay.topics import ROOM_LOGS
from tests.attacks.leftovers import attacker, left, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub

OWN = 20
"""The default of the setting `own_rooms`."""

ATTEMPTS = 50


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, room_count=ATTEMPTS)
    yield hub
    hub.close()


def make(hub: Hub, headers: dict[str, str], name: str) -> TestResponse:
    return hub.client.put(f"/rooms/{name}", data=b"{}", content_type="application/json", headers=headers)


def delete(hub: Hub, headers: dict[str, str], name: str, head: str) -> TestResponse:
    return hub.client.delete(f"/rooms/{name}", headers=headers | ({"If-Match": f'"{head}"'} if head else {}))


def message(answer: TestResponse) -> str:
    return str(orjson.loads(answer.data)["error"]["message"])


def test_one_key_leaves_room_for_the_rooms_of_others(hub: Hub) -> None:
    """48.4: of 50 rooms of one key, 20 are made; another key makes its own."""
    headers, other = attacker(hub), attacker(hub, "other")
    made = [make(hub, headers, f"flood{number}") for number in range(ATTEMPTS)]
    assert [answer.status_code for answer in made] == [201] * OWN + [429] * (ATTEMPTS - OWN)
    assert "each caller may have 20 rooms: delete one first" in message(made[-1])
    assert left(hub.catalogue.store, ROOM_LOGS).entries == OWN
    assert make(hub, other, "honest").status_code == 201


def test_a_key_deletes_its_own_rooms_and_no_others(hub: Hub) -> None:
    headers, other = attacker(hub), attacker(hub, "other")
    head = orjson.loads(make(hub, other, "honest").data)["head"]
    refused = delete(hub, headers, "honest", head)
    assert refused.status_code == 403 and "only its creator and the operator" in message(refused)
    assert delete(hub, other, "honest", "").status_code == 428
    assert delete(hub, other, "honest", "bafkreih").status_code == 412
    assert delete(hub, other, "honest", head).status_code == 204
    assert delete(hub, other, "honest", head).status_code == 404
    assert left(hub.catalogue.store, ROOM_LOGS).entries == 0


def test_rooms_that_are_made_and_deleted_leave_nothing(hub: Hub) -> None:
    headers = attacker(hub)
    before = left(hub.catalogue.store, "room", "ledger/").entries
    for _ in range(ATTEMPTS):
        head = orjson.loads(make(hub, headers, "again").data)["head"]
        assert delete(hub, headers, "again", head).status_code == 204
    assert left(hub.catalogue.store, "room", "ledger/").entries <= before + 2  # one row of each account


def test_two_nodes_count_the_rooms_of_one_key_together(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """48.4: the limit holds for both nodes together; a room that one node deletes is gone at the other."""
    with two_nodes(tmp_path, postgresql.new_schema()) as hubs:
        headers = attacker(hubs[0])
        made = [make(hubs[number % 2], headers, f"flood{number}") for number in range(OWN + 4)]
        assert [answer.status_code for answer in made] == [201] * OWN + [429] * 4
        head = orjson.loads(made[0].data)["head"]
        assert delete(hubs[1], headers, "flood0", head).status_code == 204
        assert hubs[0].client.get("/rooms/flood0/log", headers=headers).status_code == 404
        assert make(hubs[1], headers, "flood0").status_code == 201


def test_forks_of_a_room_count_as_rooms_of_their_maker(hub: Hub) -> None:
    """48.4: a fork may have the policy and the members of a large room."""
    headers, other = attacker(hub), attacker(hub, "other")
    assert make(hub, headers, "first").status_code == 201
    said = [
        hub.client.post("/rooms/first/fork", json={"seq": 1, "name": f"fork{number}"}, headers=headers)
        for number in range(OWN + 4)
    ]
    assert [answer.status_code for answer in said] == [201] * (OWN - 1) + [429] * 5
    assert "each caller may have 20 rooms" in message(said[-1])
    assert left(hub.catalogue.store, ROOM_LOGS).entries == OWN
    assert make(hub, other, "honest").status_code == 201
