"""The page *Use of limits*: an administrator sees all callers, a caller itself, with the numbers of all processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.limits.usage import Use
from patchbay.access.principals import Principal
from patchbay.web.access.usage import format_use
from tests.access.team import new_key, set_grants, team_hub
from tests.attacks.leftovers import two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, links

Headers = dict[str, str]
ROOM_LIMIT = 4


def limit(hub: Hub) -> None:
    everything = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
    set_grants(hub, {"grants": everything, "quotas": [{"to": ["*"], "rooms": ROOM_LIMIT}]})


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = team_hub(tmp_path).log_in()
    limit(hub)
    yield hub
    hub.close()


def rows(hub: Hub, headers: Headers | None = None, caller: str = "") -> list[dict[str, Any]]:
    client = hub.app.test_client() if headers else hub.client
    answer = client.get(f"/access/usage.json?caller={caller}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = orjson.loads(answer.data)["rows"]
    return found


def used(hub: Hub, key: Headers) -> tuple[float, float]:
    """The rooms and the open streams of a caller, as the page has them."""
    found = {row["limit"]: row["used"] for row in rows(hub, key)}
    return found["rooms"], found["streams"]


def make_rooms(hub: Hub, key: Headers, number: int) -> None:
    for each in range(number):
        name = f"room{each}-{number}"
        assert hub.app.test_client().put(f"/rooms/{name}", json={}, headers=key).status_code == 201


def test_an_administrator_sees_all_callers_the_nearest_to_a_limit_first(hub: Hub) -> None:
    ann, ben = new_key(hub, "ann"), new_key(hub, "ben")
    make_rooms(hub, ann, 1)
    make_rooms(hub, ben, 3)
    found = [(row["caller"], row["text"], row["part"]) for row in rows(hub) if row["limit"] == "rooms"]
    assert found[:2] == [("key:ben", "3 of 4", 0.75), ("key:ann", "1 of 4", 0.25)]
    assert rows(hub)[0]["caller"] == "key:ben"
    assert {row["caller"] for row in rows(hub, caller="key:ann")} == {"key:ann"}
    shown = hub.client.get("/access/usage", headers=BROWSER).text
    assert shown.index("the key ben") < shown.index("created rooms") and "3 of 4" in shown and "75%" in shown
    assert shown.index("the key ben") < shown.index("<code>key:ben</code>")  # the id is under Details
    assert "/activity?caller=key%3Aben" in links(shown)


def test_the_page_of_grants_reads_no_numbers_and_links_to_them(hub: Hub) -> None:
    """They cost reads of the store for each caller, and an answer of each process."""
    make_rooms(hub, new_key(hub, "ben"), 3)
    shown = hub.client.get("/access", headers=BROWSER).text
    assert 'href="/access/usage"' in shown and "3 of 4" not in shown


def test_a_caller_sees_itself_alone(hub: Hub) -> None:
    ann, ben = new_key(hub, "ann"), new_key(hub, "ben")
    make_rooms(hub, ann, 1)
    make_rooms(hub, ben, 2)
    for caller in ("", "key:ben", "*"):
        found = rows(hub, ann, caller)
        assert {row["caller"] for row in found} == {"key:ann"}
    shown = hub.app.test_client().get("/access/usage", headers=ann | BROWSER).text
    assert "1 of 4" in shown and "key:ben" not in shown and "What you use" in shown


def test_a_caller_without_a_key_sees_nothing(hub: Hub) -> None:
    assert hub.app.test_client().get("/access/usage.json").status_code == 401


def test_two_nodes_show_the_same_numbers(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """What runs on one node is shown by the other."""
    with two_nodes(tmp_path, postgresql.new_schema()) as hubs:
        limit(hubs[0])
        hubs[1].catalogue.refresh()
        key = new_key(hubs[0], "ann")
        make_rooms(hubs[0], key, 1)
        sender = Principal("key:ann")
        places = [hub.app.parts.dispatcher.services.quotas.open_stream(sender) for hub in hubs]
        # A node that does not answer within a second is left out.
        until(lambda: [used(hub, key) for hub in hubs] == [(1, 2), (1, 2)], "the numbers of both nodes")
        assert len(places) == 2


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (Use("rooms", 3, 20), "3 of 20"),
        (Use("call_ids", 12_345, None), "12,345"),
        (Use("room_bytes", 13_107_200, 256 * 1024 * 1024), "12.5 MiB of 256 MiB"),
        (Use("bytes_stored", 1023, 1024), "1023 bytes of 1 KiB"),
        (Use("bytes_stored", 0, 1_000_000_000_000), "0 bytes of 931 GiB"),
    ],
)
def test_numbers_have_units(use: Use, text: str) -> None:
    assert format_use(use) == text
