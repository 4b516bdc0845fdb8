"""A full disk while the hub runs: successful calls are answered, and the hub reports what it could not store.

A limit on the size of files (`prlimit`) simulates the disk: every write of the worker to a file fails. setrlimit(2).
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
import pytest

from tests.attacks.posting import post
from tests.hubs import Answer
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process

SOURCE = '''
def greet(name: str = "you") -> str:
    """Greet somebody."""
    return f"hello {name}"


def large() -> str:
    """More text than a result holds."""
    return "large " * 20_000


def stepwise(context):
    """Speak twice."""
    context.progress(1, 2)
    yield "one "
    yield "two"
'''
CONFIG = {
    "auto_discover": True,
    "resources": {"last": {"uri": "last://greeting", "name": "last", "last_output_of": "greet"}},
}


def call(hub: Hub, tool: str, headers: dict[str, str] | None = None, **params: Any) -> Answer:
    """tools/call of the server `disk`."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, **params}}
    return post(hub, "/mcp/disk", message, {"MCP-Protocol-Version": "2025-11-25"} | (headers or {}))


@contextmanager
def full_disk(hub: Hub) -> Iterator[None]:
    """Make every write of the workers to a file fail."""
    with ExitStack() as limits:
        for worker in hub.workers():
            before = resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            limits.callback(resource.prlimit, worker, resource.RLIMIT_FSIZE, before)
        yield


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("disk")
    (folder / "servers").mkdir()
    (folder / "servers" / "disk.py").write_text(SOURCE)
    (folder / "servers" / "disk.mcp.json").write_bytes(orjson.dumps(CONFIG))
    with running(folder, "--inline-limit", "10000") as one:
        assert call(one, "greet").text == "hello you"
        yield one


def test_a_call_whose_last_output_cannot_be_kept_succeeds(hub: Hub) -> None:
    with full_disk(hub):
        answer = call(hub, "greet", arguments={"name": "disk"})
    assert (answer.status, answer.text) == (200, "hello disk")
    assert not answer.result.get("isError")
    hub.line_with("the last output of disk.greet is not stored")
    call(hub, "greet", arguments={"name": "again"})
    read = post(
        hub,
        "/mcp/disk",
        {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "last://greeting"}},
    )
    assert read.result["contents"][0]["text"] == "hello again"


def test_a_large_result_that_cannot_be_kept_is_given_whole(hub: Hub) -> None:
    with full_disk(hub):
        answer = call(hub, "large")
    assert answer.status == 200
    assert answer.text == "large " * 20_000
    hub.line_with("a large result of large is not kept")
    linked = call(hub, "large")
    assert [item["type"] for item in linked.result["content"]] == ["text", "resource_link"]


def test_a_streamed_call_of_a_session_is_answered(hub: Hub) -> None:
    opening = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "disk", "version": "1"}},
    }
    with full_disk(hub):
        session = post(hub, "/mcp/disk", opening).headers["Mcp-Session-Id"]
        answer = call(
            hub,
            "stepwise",
            {"Mcp-Session-Id": session},
            _meta={"progressToken": "p"},
        )
    assert answer.streamed
    assert answer.text == "one two"


def test_the_plain_and_the_native_interface_answer(hub: Hub) -> None:
    with full_disk(hub):
        plain = post(hub, "/disk/greet", {"name": "plain"})
        native = post(hub, "/rpc", {"jsonrpc": "2.0", "id": 1, "method": "disk.greet", "params": {"name": "native"}})
    assert (plain.status, plain.body) == (200, b"hello plain")
    assert b"hello native" in native.body


def test_an_upload_is_refused_and_leaves_nothing(hub: Hub) -> None:
    with full_disk(hub):
        answer = post(hub, "/blobs", "x" * 20_000)
    assert answer.status == 507 and "nothing was stored" in answer.last["error"]
    assert post(hub, "/blobs", "x" * 20_000).status == 201
