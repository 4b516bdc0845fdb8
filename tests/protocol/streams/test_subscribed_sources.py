"""A subscriber hears of a change of a resource, from each source that a resource can have. Issue 34, item 16."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.boot import change_names
from tests.hubs import Hub
from tests.protocol.streams.test_subscriptions import frames_of, listen

CODE = '''"""Show things."""


def say(text: str) -> str:
    return text


def touch(context) -> str:
    context.updated("zoo://computed")
    return "touched"


def computed() -> str:
    return "computed"
'''
CONFIG = {
    "auto_discover": True,
    "resources": {
        "shown": {"uri": "zoo://shown", "variable": "greeting"},
        "said": {"uri": "zoo://said", "last_output_of": "say"},
        "computed": {"uri": "zoo://computed", "function": "computed"},
    },
}


@pytest.fixture(name="hub", params=["memory", "sqlite"])
def hub_with_sources(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hub]:
    files = {"zoo.py": CODE, "zoo.mcp.json": orjson.dumps(CONFIG).decode()}
    hub = Hub(tmp_path, files, store=request.param)
    yield hub
    hub.close()


def set_variable(hub: Hub, name: str, text: bytes) -> None:
    store = hub.catalogue.store
    change_names(store, {f"variables/{name}": store.blobs.put(text)}, "tests", "a new value")


def change_of(stream: Any) -> str:
    told = next(stream)
    assert told["method"] == "notifications/resources/updated"
    return str(told["params"]["uri"])


@pytest.mark.parametrize("uri", ["variable://greeting", "zoo://shown"])
@pytest.mark.parametrize("text", [b"hello", b"bafkqabdimvwgy3y"], ids=["text", "cid"])
def test_a_variable_tells_of_its_new_value(hub: Hub, uri: str, text: bytes) -> None:
    set_variable(hub, "greeting", b"hi")
    stream = listen(hub, resourceSubscriptions=[uri, "variable://other"])
    next(stream)
    set_variable(hub, "unrelated", b"1")
    set_variable(hub, "greeting", text)
    assert change_of(stream) == uri
    set_variable(hub, "other", b"2")
    assert change_of(stream) == "variable://other"
    stream.close()


def test_a_session_of_an_older_revision_hears_of_a_variable(hub: Hub) -> None:
    session = hub.open("zoo")
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    assert hub.legacy("zoo", "resources/subscribe", {"uri": "variable://greeting"}, session).result == {}
    opened = hub.client.get("/mcp/zoo", headers=headers, buffered=False)
    stream = opened.iter_encoded()
    next(stream)
    set_variable(hub, "greeting", b"hello")
    assert next(frames_of(stream))["params"] == {"uri": "variable://greeting"}
    opened.close()


@pytest.mark.process
def test_the_last_output_and_what_a_tool_reports_are_told(hub: Hub) -> None:
    stream = listen(hub, resourceSubscriptions=["zoo://said", "zoo://computed"])
    next(stream)
    assert hub.call("zoo", "say", {"text": "hello"}).text == "hello"
    assert change_of(stream) == "zoo://said"
    assert hub.call("zoo", "touch").text == "touched"
    assert change_of(stream) == "zoo://computed"
    stream.close()


def test_a_document_tells_of_a_change_from_outside_also_before_anything_was_read(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# One\n")
    config = orjson.dumps({"kind": "documents", "root": str(notes)}).decode()
    hub = Hub(tmp_path / "hub", {"zoo.json": config})
    try:
        stream = listen(hub, resourceSubscriptions=["docs://zoo/one.md"])
        next(stream)
        (notes / "one.md").write_text("# One, changed\n")
        assert change_of(stream) == "docs://zoo/one.md"
        stream.close()
    finally:
        hub.close()


def test_a_server_behind_a_mount_without_subscriptions_announces_none(tmp_path: Path) -> None:
    """A mount whose server never answered offers nothing yet."""
    config = orjson.dumps({"kind": "upstream", "address": "http://127.0.0.1:9/mcp"}).decode()
    hub = Hub(tmp_path / "hub", {"zoo.json": config})
    try:
        discovered = hub.modern("zoo", "server/discover").result["capabilities"]
        assert discovered["resources"]["subscribe"] is False
        session = hub.open("zoo")
        assert hub.legacy("zoo", "resources/subscribe", {"uri": "a://b"}, session).error["code"] == -32601
    finally:
        hub.close()
