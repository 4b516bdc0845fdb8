"""What is listed is what can be used, over real HTTP: the official SDK client, plain HTTP, native, pages.

A few random documents only; `test_visible_if_usable.py` has thousands in process.

Sources: ACCESS section 3; issue 16 "Must show".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import mcp
import orjson
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from patchbay.access.keys import PersonalKeys
from patchbay.access.principals import Principal
from patchbay.stores.sqlite import SqliteStore
from tests.access.random_access import PATTERNS
from tests.access.team import CALLS, FILES, PROMPTS, READS, SERVERS, Json, may
from tests.attacks.test_acts_as_the_operator import sent
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until_every_worker

pytestmark = pytest.mark.process

DOCUMENTS = 8
"""Random documents of this test."""

NAMES = ("ann", "ben")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("team")
    (folder / "servers").mkdir()
    for name, text in FILES.items():
        (folder / "servers" / name).write_text(text)
    with running(folder, "--access", "shared", "--page-size", "500") as started:
        yield started


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    store = SqliteStore(hub.folder / "data")
    found = {name: PersonalKeys(store).make(name) for name in NAMES}
    store.close()
    return found


def random_document(seed: int) -> Json:
    """A document about `key:ann` and `key:ben`."""
    chance = random.Random(seed)
    people = ["key:ann", "key:ben", "team", "*"]

    def patterns() -> list[str]:
        return chance.sample(PATTERNS, chance.randint(1, 3))

    uses = [["call"], ["read"], ["see"], ["call", "read"], ["see", "call", "read"]]
    grants = [{"to": [chance.choice(people)], "may": chance.choice(uses), "on": patterns()} for _ in range(4)]
    denials = [{"to": [chance.choice(people)], "on": patterns()} for _ in range(chance.randint(0, 2))]
    return {"groups": {"team": ["key:ben"]}, "grants": grants, "denials": denials}


async def seen_by_sdk(url: str, key: str, server: str) -> Json:
    """What the SDK's client finds on a server, and what of everything it can use."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=BOUND) as http:
        transport = streamable_http_client(f"{url}/mcp/{server}", http_client=http)
        async with mcp.Client(transport, read_timeout_seconds=BOUND) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            resources = [str(one.uri) for one in (await client.list_resources()).resources]
            prompts = [one.name for one in (await client.list_prompts()).prompts]
            called, read, got = [], [], []
            for name in CALLS[server]:
                arguments: dict[str, Any] = {"id": "1"} if name == "note" else {}
                if name in ("relay", "peek", "names", "elsewhere"):
                    called += [name] if name in tools else []
                elif not (await client.call_tool(name, arguments)).is_error:
                    called.append(name)
            for uri in READS[server]:
                try:
                    await client.read_resource(uri)
                    read.append(uri)
                except MCPError:
                    continue
            for name in PROMPTS[server]:
                try:
                    await client.get_prompt(name, {})
                    got.append(name)
                except MCPError:
                    continue
    return {"tools": (tools, called), "resources": (resources, read), "prompts": (prompts, got)}


def check_with_sdk(hub: Hub, key: str, who: Principal, document: Json, server: str) -> None:
    expected = {
        "tools": {name for name in CALLS[server] if may(document, who, "call", server, name)},
        "resources": {uri for uri in READS[server] if may(document, who, "read", server, uri)},
        "prompts": {name for name in PROMPTS[server] if may(document, who, "read", server, name)},
    }
    found = asyncio.run(seen_by_sdk(f"http://127.0.0.1:{hub.port}", key, server))
    for kind, names in expected.items():
        listed, used = found[kind]
        assert set(listed) == set(used) == names, (document, who.id, server, kind)


def callable_tools(hub: Hub, key: str) -> Json:
    """How many tools of each visible server the holder of a key can call."""
    rows = orjson.loads(sent(hub.port, "GET", "/servers.json", b"", {"Authorization": f"Bearer {key}"})[2])
    return {row["name"]: row["tools"] for row in rows}


def expected_tools(document: Json, who: Principal) -> dict[str, int]:
    return {server: sum(may(document, who, "call", server, name) for name in CALLS[server]) for server in SERVERS}


def is_in_force(hub: Hub, keys: dict[str, str], document: Json) -> bool:
    """Whether the worker that answers uses a document: the numbers of tools differ from those of the one before."""
    for name, key in keys.items():
        found, expected = callable_tools(hub, key), expected_tools(document, Principal(f"key:{name}"))
        if {server: found.get(server, 0) for server in SERVERS} != expected:
            return False
    return True


def test_each_document_is_seen_in_the_numbers_of_tools() -> None:
    """Otherwise the wait for every worker proves nothing."""
    people = [Principal(f"key:{name}") for name in NAMES]
    numbers = [[expected_tools(random_document(seed), who) for who in people] for seed in range(DOCUMENTS)]
    assert all(before != after for before, after in pairwise(numbers))


def check_other_ways(hub: Hub, key: str, who: Principal, document: Json) -> None:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json", "Content-Type": "application/json"}
    counts = callable_tools(hub, key)
    schema = b'{"jsonrpc": "2.0", "id": 1, "method": "plexus_schema", "params": {}}'
    native = sent(hub.port, "POST", "/rpc", schema, headers)[2]
    for server in SERVERS:
        calls = {name for name in CALLS[server] if may(document, who, "call", server, name)}
        assert counts.get(server, 0) == len(calls), (document, who.id, server)
        assert (f'"namespace":"{server}"' in native) is bool(calls)
        page = sent(hub.port, "GET", f"/servers/{server}", b"", headers | {"Accept": "text/html"})
        assert (page[0] == 200) is (server in counts)
        for name in ("search", "delete_note", "run", "delete_all", "lone"):
            if name in CALLS[server]:
                status, _, text = sent(hub.port, "POST", f"/{server}/{name}", b"{}", headers)
                assert (status == 200) is (name in calls), (document, who.id, server, name, text)


@pytest.mark.parametrize("seed", range(DOCUMENTS))
def test_lists_hold_exactly_the_entries_that_can_be_used_over_http(hub: Hub, keys: dict[str, str], seed: int) -> None:
    document = random_document(seed)
    put = sent(hub.port, "PUT", "/variables/access", orjson.dumps(document), hub.as_operator())
    assert put[0] in (200, 201), put
    until_every_worker(partial(is_in_force, hub, keys, document), "the document is in force")
    for name, key in keys.items():
        who = Principal(f"key:{name}")
        check_other_ways(hub, key, who, document)
        for server in (name for name in callable_tools(hub, key) if name in SERVERS):
            check_with_sdk(hub, key, who, document, server)
