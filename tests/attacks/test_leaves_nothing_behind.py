"""One key sends requests that leave nothing behind, by every method and route that says so, and those of the operator.

The store is compared before and after, topic by topic and name by name, beside the records of calls and the audit
chain, which have limits of their own.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from patchbay.protocol.methods import METHODS
from patchbay.store import Store
from patchbay.topics import ACTIVITY, AUDIT
from patchbay.web.openapi.routes import ALL_ROUTES, PROTOCOLS
from tests.attacks.leftovers import PAGE, attacker
from tests.hubs import Hub, modern_request
from tests.web.browsing import BROWSER, TOWN, town_config

Headers = dict[str, str]
State = tuple[Counter[str], int]

TIMES = 5
MULTIPART = "multipart/form-data"

RECORDED = (ACTIVITY, AUDIT)
"""How the topics of records begin."""

LEAVING = (
    *("initialize", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"),
    *("tools/call", "events/subscribe", "events/unsubscribe", "subscriptions/listen", "events/stream"),
)
READING = sorted(METHODS.keys() - set(LEAVING))
"""Methods that a caller may repeat without an end."""

PARAMS: dict[str, dict[str, Any]] = {
    "resources/read": {"uri": "server://town"},
    "prompts/get": {"name": "plan", "arguments": {}},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "x", "value": "a"}},
    "tasks/get": {"taskId": "x" * 32},
    "tasks/update": {"taskId": "x" * 32, "inputResponses": {}},
    "tasks/cancel": {"taskId": "x" * 32},
    "events/poll": {"name": "variable.changed"},
}

PLACES = {"name": "town", "server": "town", "address": "town", "room": "town", "function": "visit", "id": "1"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"town.py": TOWN, "town.mcp.json": town_config().decode()}
    hub = Hub(tmp_path_factory.mktemp("town"), files, access="shared", store="sqlite")
    hub.app.parts.pages.load()
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def key(hub: Hub) -> Headers:
    headers = attacker(hub)
    hub.client.get("/", headers=headers).close()  # the first use of a key is noted
    return headers


def state(store: Store) -> State:
    """The entries of the journal by topic, and the number of the newest change of a name."""
    assert store.transfer is not None
    found, after = Counter[str](), 0
    while rows := store.transfer.entries(after, PAGE):
        after = rows[-1].seq
        found.update(row.topic for row in rows if not row.topic.startswith(RECORDED))
    newest = store.names.past(limit=1)
    return found, newest[0].seq if newest else 0


@pytest.mark.parametrize("method", READING)
def test_a_method_that_reads_leaves_nothing(hub: Hub, key: Headers, method: str) -> None:
    """48.4"""
    before = state(hub.catalogue.store)
    params, is_modern = PARAMS.get(method, {}), METHODS[method].modern
    for number in range(TIMES):
        plain = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        sent = modern_request(method, params, headers=key) if is_modern else (plain, key)
        assert hub.send("town", *sent).last
    assert state(hub.catalogue.store) == before


def path_of(route: str) -> str:
    return re.sub(r"<(\w+)>", lambda found: PLACES.get(found[1], "town"), route)


@pytest.mark.parametrize("route", [one for one in ALL_ROUTES if one.method == "GET"], ids=lambda one: one.path)
def test_a_page_leaves_nothing(hub: Hub, key: Headers, route: Any) -> None:
    """48.4"""
    before = state(hub.catalogue.store)
    for _ in range(TIMES):
        with hub.client.get(path_of(route.path), headers=key | BROWSER, buffered=False) as answer:
            assert answer.status_code < 500
    assert state(hub.catalogue.store) == before


OF_THE_OPERATOR = [one for one in ALL_ROUTES if one.method != "GET" and one.operator and one not in PROTOCOLS]


@pytest.mark.parametrize("route", OF_THE_OPERATOR, ids=lambda one: f"{one.method} {one.path}")
def test_a_route_of_the_operator_refuses_a_key_and_leaves_nothing(hub: Hub, key: Headers, route: Any) -> None:
    """48.4"""
    before = state(hub.catalogue.store)
    for _ in range(TIMES):
        fields: dict[str, Any] = {"csrf": "x", "do": "make", "name": "new", "source": "{}", "action": "save"}
        if MULTIPART in (route.body or {}):
            fields["file"] = (BytesIO(b"{}"), "approvals.json")
        sent = key | {"Sec-Fetch-Site": "same-origin"}
        with hub.client.open(path_of(route.path), method=route.method, data=fields, headers=sent) as answer:
            assert answer.status_code in (401, 403, 404), answer.get_data()
    assert state(hub.catalogue.store) == before


BESIDE_THE_PAGES = ("/rooms/town/log", "/.well-known/oauth-protected-resource/mcp/town", "/mcp/town", "/mcp")
"""Addresses that are served in front of the pages."""


@pytest.mark.parametrize("path", BESIDE_THE_PAGES)
def test_what_is_read_in_front_of_the_pages_leaves_nothing(hub: Hub, key: Headers, path: str) -> None:
    """48.4"""
    before = state(hub.catalogue.store)
    for _ in range(TIMES):
        with hub.client.get(path, headers=key, buffered=False) as answer:
            assert answer.status_code < 500
    assert state(hub.catalogue.store) == before


@pytest.mark.parametrize("method", ["initialized", "cancelled", "roots/list_changed", "unknown"])
def test_a_notification_leaves_nothing(hub: Hub, key: Headers, method: str) -> None:
    """48.4"""
    before = state(hub.catalogue.store)
    for number in range(TIMES):
        params = {"requestId": number}
        message = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        assert hub.send("town", message, key).status == 202
    assert state(hub.catalogue.store) == before
