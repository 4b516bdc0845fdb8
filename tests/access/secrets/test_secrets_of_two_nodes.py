"""A secret changes while calls run over two nodes: no call is lost, nothing restarts. Issue 56, 1."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.access.secrets.records import Secrets
from patchbay.stores import open_store
from tests.access.secrets.keyed_mounts import digest_of, program_mount
from tests.databases import PostgresqlServer
from tests.hubs import BOTH
from tests.interaction.nodes import Nodes, running_nodes
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

VALUES = int(os.environ.get("PATCHBAY_SECRET_CHANGES", "3"))


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "far.json").write_text(program_mount())
    with running_nodes(tmp_path, postgresql.new_schema(), 2) as found:
        yield found


def call(port: int, tool: str, **arguments: str) -> str:
    """Call a tool of `far` at a node without a session; return the text of its result, or of its failure."""
    params = {"name": tool, "arguments": arguments}
    headers = {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": "2025-11-25"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=BOUND)) as connection:
        connection.request("POST", "/mcp/far", body, headers)
        text = connection.getresponse().read().decode()
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]  # of an event stream
    found = json.loads(lines[-1] if lines else text)
    return str(found["result"]["content"][0]["text"] if "result" in found else found)


def wait_for_value(nodes: Nodes, value: str) -> None:
    """Wait until the server behind each node has this secret."""
    until(lambda: all(call(port, "digest") == digest_of(value) for port in nodes.ports), value)


def wait_for_calls(seen: Counter[str]) -> None:
    """Wait until more calls have ended."""
    before = seen.total()
    until(lambda: seen.total() > before + 20, "calls")


def test_calls_over_two_nodes_go_on_while_a_secret_changes(nodes: Nodes, tmp_path: Path) -> None:
    store = open_store(nodes.address, tmp_path / "own")
    secrets, values = Secrets(store, bytes.fromhex(nodes.key)), [f"value number {number}" for number in range(VALUES)]
    secrets.put("TOKEN", values[0], "local")
    wait_for_value(nodes, values[0])
    seen: Counter[str] = Counter()
    is_over = threading.Event()

    def keep_calling(port: int) -> None:
        while not is_over.is_set():
            seen[call(port, "digest")] += 1

    processes = [hub.process.pid for hub in nodes.hubs]
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(keep_calling, port) for port in nodes.ports * 2]
        for number, value in enumerate(values[1:]):
            gate = tmp_path / f"gate {number}"
            long = [pool.submit(call, port, "wait_for", file=str(gate)) for port in nodes.ports]
            wait_for_calls(seen)
            secrets.put("TOKEN", value, "local")
            wait_for_value(nodes, value)
            gate.touch()
            assert {one.result(BOUND) for one in long} <= {digest_of(values[number]), digest_of(value)}
        is_over.set()
        for one in running:
            one.result(BOUND)
    store.close()
    assert set(seen) == {digest_of(value) for value in values}, "no call failed, and none had another value"
    assert processes == [hub.process.pid for hub in nodes.hubs]
    assert all(hub.process.poll() is None for hub in nodes.hubs)
