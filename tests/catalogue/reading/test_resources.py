"""Reading resources: every source, every scheme, every refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchbay.catalogue.reading.resources import read_resource
from patchbay.cid import cid_of
from patchbay.errors import InvalidParams, ResourceNotFound, ToolFailed
from tests.waiting import BOUND

CODE = '''
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b

def page(path: str) -> str:
    """A page."""
    return "page " + path

def typed() -> dict:
    """Typed."""
    return {"output": "<p>hi</p>", "content_type": "text/html"}

def picture() -> bytes:
    """Bytes."""
    return b"\\x89PNG\\r\\n\\x1a\\n"

def fails() -> str:
    """Fails."""
    raise ValueError("no luck")

def echo(message: str) -> str:
    """Echo."""
    return message
'''

CONFIG: dict[str, Any] = {
    "auto_discover": True,
    "annotations": {"readOnlyHint": True},
    "tools": {"delete": {"function": "echo", "annotations": {"readOnlyHint": False}}},
    "resources": {
        "text": {"uri": "my://text", "text": "Hé"},
        "html": {"uri": "my://html", "text": "<p>", "mimeType": "text/html"},
        "blob": {"uri": "my://blob", "blob": "AAEC", "mimeType": "image/png"},
        "function": {"uri": "my://function", "function": "typed", "mimeType": "text/html"},
        "picture": {"uri": "my://picture", "function": "picture"},
        "fails": {"uri": "my://fails", "function": "fails"},
        "last": {"uri": "my://last", "last_output_of": "echo"},
        "variable": {"uri": "my://variable", "variable": "motto"},
    },
    "resource_templates": {"page": {"uriTemplate": "my://pages/{+path}", "function": "page"}},
}


@pytest.fixture
def hub(bench: Any) -> Any:
    cid = bench.keep("kept as a CID")
    resources = {**CONFIG["resources"], "cid": {"uri": "my://cid", "cid": cid}}
    bench.plug("my", CODE, config={**CONFIG, "resources": resources})
    bench.change({"variables/motto": bench.keep("plug anything in")})
    return bench.open()


def read(bench: Any, hub: Any, uri: str, limit: int = 1000) -> list[dict[str, Any]]:
    return read_resource(hub, hub.find("my"), uri, bench.call(hub, "my"), limit)


@pytest.mark.parametrize(
    ("uri", "mime", "text"),
    [
        ("my://text", "text/plain", "Hé"),
        ("my://html", "text/html", "<p>"),
        ("my://cid", "text/plain", "kept as a CID"),
        ("my://variable", "text/plain", "plug anything in"),
        ("my://pages/a/b%20c", "text/plain", "page a/b c"),
        ("my://last", "text/plain", ""),
        ("variable://motto", "text/plain", "plug anything in"),
        ("server://my/add?a=40&b=2", None, "42"),
        ("server://my/echo?message=a%26b+c", "text/plain", "a&b c"),
        (f"cid://{cid_of(b'kept as a CID')}", "text/plain", "kept as a CID"),
    ],
)
def test_text_is_read(bench: Any, hub: Any, uri: str, mime: str | None, text: str) -> None:
    """T6.2, T6.4, VWR-27"""
    (content,) = read(bench, hub, uri)
    assert (content["uri"], content["text"]) == (uri, text)
    assert mime in (None, content["mimeType"])


def test_a_function_may_say_its_media_type(bench: Any, hub: Any) -> None:
    """V-F8"""
    (content,) = read(bench, hub, "my://function")
    assert (content["mimeType"], content["text"]) == ("text/html", "<p>hi</p>")


@pytest.mark.parametrize(("uri", "blob"), [("my://blob", "AAEC"), ("my://picture", "iVBORw0KGgo=")])
def test_bytes_are_read_as_base64(bench: Any, hub: Any, uri: str, blob: str) -> None:
    """T6.3"""
    (content,) = read(bench, hub, uri)
    assert (content["blob"], content["mimeType"], "text" in content) == (blob, "image/png", False)


def test_json_in_a_blob_is_seen_as_json(bench: Any, hub: Any) -> None:
    """VWR-27"""
    json, octets = bench.keep({"a": 1}), bench.keep(bytes([255, 0]))
    bench.change({"variables/json": bench.keep(json), "variables/octets": bench.keep(octets)})
    (content,) = read(bench, hub, f"cid://{json}")
    assert content["mimeType"] == "application/json"
    (content,) = read(bench, hub, f"cid://{octets}")
    assert (content["mimeType"], content["blob"]) == ("application/octet-stream", "/wA=")


def test_an_identity_cid_carries_its_content(bench: Any, hub: Any) -> None:
    """T6.4, V-F1"""
    (content,) = read(bench, hub, "cid://bafkqablimvwgy3y")
    assert content["text"] == "hello"


def test_the_hub_lists_its_servers_and_describes_each(bench: Any, hub: Any) -> None:
    """VWR-27"""
    bench.plug("off", CODE, enabled=False)
    hub.refresh()
    (content,) = read(bench, hub, "server://")
    assert json.loads(content["text"]) == [{"name": "my", "kind": "python", "endpoint": "/mcp/my"}]
    (content,) = read(bench, hub, "server://my", limit=10**6)
    assert "add" in [tool["name"] for tool in json.loads(content["text"])["tools"]]


@pytest.mark.parametrize(
    "uri",
    [
        "my://nothing",
        "variable://nothing",
        "server://nobody",
        "server://nobody/tool",
        "server://my/nothing",
        "cid://nonsense",
        f"cid://{cid_of(b'nobody kept this')}",
        "file:///etc/passwd",
        "https://example.org/",
        "",
    ],
)
def test_a_missing_resource_is_named(bench: Any, hub: Any, uri: str) -> None:
    """T6.5, X-4"""
    with pytest.raises(ResourceNotFound) as caught:
        read(bench, hub, uri)
    assert caught.value.data == {"uri": uri}


def test_a_tool_without_a_read_only_hint_is_not_run_by_reading(bench: Any, hub: Any) -> None:
    """VWR-27, V-C10"""
    with pytest.raises(InvalidParams, match="not marked read-only"):
        read(bench, hub, "server://my/delete?message=x")


def test_a_failing_function_is_a_sentence(bench: Any, hub: Any) -> None:
    """T6.5"""
    with pytest.raises(ToolFailed, match="my://fails could not be read: ValueError: no luck"):
        read(bench, hub, "my://fails")


def test_a_resource_above_the_limit_is_refused(bench: Any, hub: Any) -> None:
    with pytest.raises(InvalidParams, match="has 3 bytes; at most 2 are read at once"):
        read(bench, hub, "my://text", limit=2)
    with pytest.raises(InvalidParams, match="at most 2 are read"):
        read(bench, hub, "my://blob", limit=2)


def test_the_last_output_of_a_tool_is_kept_for_its_resource(bench: Any, hub: Any) -> None:
    """V-C10, VWR-17"""
    result = {"content": [{"type": "text", "text": "said before"}]}
    with bench.store.bus.subscribe(["updated/my"]) as mailbox:
        hub.hub.remember(hub.find("my"), "echo", result)
        assert mailbox.get(BOUND) == ("updated/my", b"my://last")
    hub.hub.remember(hub.find("my"), "add", {"content": [{"type": "text", "text": "not kept"}]})
    assert read(bench, hub, "my://last")[0]["text"] == "said before"
