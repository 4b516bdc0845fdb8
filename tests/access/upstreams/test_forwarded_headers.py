"""Headers of a caller's own request go on to a mounted server that wants them, and nothing else of the request."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.access.team import set_grants
from tests.access.upstreams.guarded import Caller, caller_of, tools_of
from tests.access.upstreams.keyed import Keyed, key_of, running_keyed
from tests.hubs import Answer, Hub, modern_request
from tests.kinds.openapi.mounting import document, operation
from tests.kinds.openapi.recording_api import RecordingApi, Reply, recording_api
from tests.signing_in import accounts_of, shared_hub, signed_in
from tests.waiting import until

pytestmark = [pytest.mark.process]

NAMES = iter(f"person{number}" for number in range(1000))
FORWARDED = {"account": "caller", "way": "forward", "forward": ["X-Tenant", "X-Trace-Name"]}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with running_keyed(tmp_path_factory.mktemp("keyed")) as keyed:
        yield keyed


@pytest.fixture(scope="module")
def api() -> Iterator[RecordingApi]:
    paths = {"/who": {"get": operation(operationId="who")}}
    with recording_api(document(paths), lambda seen: Reply({"tenant": seen.headers.get("X-Tenant", "")})) as api:
        yield api


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, keyed: Keyed, api: RecordingApi) -> Iterator[Hub]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAR_KEY", key_of("hub"))
        far = {"kind": "upstream", "address": keyed.url, "headers": {"X-Api-Key": "${FAR_KEY}"}}
        near = {"kind": "openapi", "document": f"{api.url}/openapi.json", "base": api.url}
        files = {"far.json": json.dumps(far | FORWARDED), "api.json": json.dumps(near | FORWARDED)}
        hub = shared_hub(tmp_path_factory.mktemp("hub"), files=files)
        until(lambda: hub.catalogue.find("api").tools, lambda: hub.catalogue.find("api"))
        yield hub
        hub.close()


def caller_at(hub: Hub, server: str) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), server)


def call(caller: Caller, server: str, tool: str, **headers: str) -> Answer:
    body, own = modern_request("tools/call", {"name": tool, "arguments": {}}, None)
    known = own | {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer.of(caller.hub.app.test_client().post(f"/mcp/{server}", json=body, headers=caller.headers(known)))


def tenants_of(keyed: Keyed, name: str) -> set[str]:
    return {row["headers"].get("x-tenant", "") for row in keyed.seen() if row["headers"].get("x-trace-name") == name}


def test_each_call_carries_the_headers_of_its_own_caller(hub: Hub, keyed: Keyed) -> None:
    ann, ben = caller_at(hub, "far"), caller_at(hub, "far")
    until(lambda: "whoami" in tools_of(ann, "far"))

    def run(number: int) -> str:
        caller, tenant = ((ann, "red"), (ben, "blue"))[number % 2]
        return call(caller, "far", "whoami", X_Tenant=tenant, X_Trace_Name=tenant).text

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(run, range(40))) == {"hub"}
    assert tenants_of(keyed, "red") == {"red"}
    assert tenants_of(keyed, "blue") == {"blue"}


def test_a_header_that_is_not_named_and_the_token_of_the_caller_do_not_go_on(hub: Hub, keyed: Keyed) -> None:
    ann = caller_at(hub, "far")
    until(lambda: "whoami" in tools_of(ann, "far"))
    assert call(ann, "far", "whoami", X_Trace_Name="quiet", X_Other="secret-value", Cookie="a=secret-value").text
    rows = str([row for row in keyed.seen() if row["headers"].get("x-trace-name") == "quiet"])
    assert "quiet" in rows
    assert "secret-value" not in rows
    assert ann.token not in str(keyed.seen())
    assert "x-tenant" not in rows


@pytest.mark.parametrize("value", ["t\u00e9", "x" * 4097])
def test_a_value_that_cannot_go_on_fails_the_call_without_being_shown(hub: Hub, value: str) -> None:
    ann = caller_at(hub, "far")
    until(lambda: "whoami" in tools_of(ann, "far"))
    refused = call(ann, "far", "whoami", X_Tenant=value)
    assert refused.result["isError"]
    assert "X-Tenant" in refused.text
    assert value not in refused.text


def test_an_api_gets_the_headers_of_the_caller(hub: Hub, api: RecordingApi) -> None:
    ann = caller_at(hub, "api")
    told: Any = call(ann, "api", "who", X_Tenant="red").result["structuredContent"]
    assert told == {"tenant": "red"}
    assert call(ann, "api", "who").result["structuredContent"] == {"tenant": ""}
    assert not any(ann.token in str(seen.headers) for seen in api.requests)


def test_connections_with_the_headers_of_a_removed_caller_are_closed_at_every_hub(
    tmp_path: Path, keyed: Keyed, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed open until `session_idle`. The second hub is told by the store alone."""
    monkeypatch.setenv("FAR_KEY", key_of("hub"))
    far = {"kind": "upstream", "address": keyed.url, "headers": {"X-Api-Key": "${FAR_KEY}"}, **FORWARDED}
    files = {"far.json": json.dumps(far)}
    key_file = tmp_path / "key"
    key_file.write_text(secrets.token_hex(32))
    hubs = [shared_hub(tmp_path / name, files=files, store=database, key_file=key_file) for name in ("one", "two")]
    first = hubs[0]
    try:
        callers = {name: caller_of(first, signed_in(first, name), "far") for name in ("ann", "ben")}
        for caller, hub in itertools.product(callers.values(), hubs):
            until(lambda caller=caller, hub=hub: "whoami" in tools_of(replace(caller, hub=hub), "far"))  # type: ignore[misc]
            assert call(replace(caller, hub=hub), "far", "whoami", X_Tenant="red").text == "hub"
        assert [count_open(hub) for hub in hubs] == [2, 2]
        accounts_of(first).people.remove("ann")
        until(lambda: [count_open(hub) for hub in hubs] == [1, 1], "the connections of ann are closed")
        assert call(callers["ben"], "far", "whoami", X_Tenant="red").text == "hub"
        everyone_else = {"grants": [{"to": ["*"], "may": ["call"], "on": ["*"]}]}
        set_grants(first, everyone_else | {"denials": [{"to": ["ben"], "on": ["far"]}]})
        until(lambda: [count_open(hub) for hub in hubs] == [0, 0], "the connections of ben are closed")
    finally:
        for hub in hubs:
            hub.close()


def count_open(hub: Hub) -> int:
    """Count the connections with headers of callers."""
    return int(hub.catalogue.find("far").upstream.call_connections.count)
