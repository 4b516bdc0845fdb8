"""Redirects: followed inside the hub, returned as links outside."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.errors import ResourceNotFound
from patchbay.events import Content, Done, Event, Failed, Text
from patchbay.outputs.redirects import resource_uri_of
from tests.kinds.calls import SmallHub, call_of, events, python

CID = "bafkreidat5xdnusakwcrrdk47v3b6qd4ptcgu7j7gfgiqjyenho6gfp42e"


def redirected(location: str, hub: SmallHub | None) -> list[Event]:
    return events(python(f"def main(): return {{'redirect': {location!r}}}"), call_of(hub=hub))


@pytest.mark.parametrize("location", [f"/cid/{CID}", f"/cid/{CID}.html", f"cid://{CID}"])
def test_content_of_the_hub_is_followed(location: str) -> None:
    """T13.8: an internal redirect is followed."""
    hub = SmallHub(resources={f"cid://{CID}": {"uri": f"cid://{CID}", "mimeType": "text/html", "text": "<b>hi</b>"}})
    assert redirected(location, hub) == [Text("<b>hi</b>"), Done()]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/variables/mcps", "variable://mcps"),
        ("/variables/mcps?raw=1", "variable://mcps"),
        ("/echo", "server://echo/echo"),
        ("/echo/", "server://echo/echo"),
        ("/echo?message=a%20b&times=2", "server://echo/echo?message=a%20b&times=2"),
        ("/echo/shout?message=a#end", "server://echo/shout?message=a"),
        ("/echo/main", "server://echo/main"),
        ("/cid/abc.tar", "cid://abc"),
        ("/cid/abc.html?download=1#top", "cid://abc"),
    ],
)
def test_paths_of_the_hub_are_resources(path: str, uri: str) -> None:
    """T13.8: the resource of each path."""
    assert resource_uri_of(path) == uri


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"mimeType": "image/png", "blob": "AAAA"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}),
        ({"mimeType": "audio/wav", "blob": "AAAA"}, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
        (
            {"mimeType": "a/b", "blob": "AAAA"},
            {"type": "resource", "resource": {"uri": "variable://x", "mimeType": "a/b", "blob": "AAAA"}},
        ),
    ],
)
def test_binary_content_keeps_its_media_type(content: dict[str, Any], expected: dict[str, Any]) -> None:
    hub = SmallHub(resources={"variable://x": {"uri": "variable://x", **content}})
    assert redirected("/variables/x", hub)[0] == Content(expected)


def test_an_address_outside_is_a_link_and_never_fetched() -> None:
    """T13.8: an external redirect is exposed."""
    hub = SmallHub()
    link = {"type": "resource_link", "uri": "https://example.org/a/report.pdf", "name": "report.pdf"}
    assert redirected("https://example.org/a/report.pdf", hub) == [Content(link), Done()]
    assert redirected("http://example.org", hub)[0] == Content(
        {"type": "resource_link", "uri": "http://example.org", "name": "example.org"}
    )
    assert hub.reads == []


@pytest.mark.parametrize("location", ["//example.org/a", "/", "/?a=1", "file:///etc/passwd", "ftp://example.org/a"])
def test_anything_else_is_refused_unread(location: str) -> None:
    hub = SmallHub()
    (failed,) = redirected(location, hub)
    assert isinstance(failed, Failed)
    assert failed.message.startswith(f"cannot follow a redirect to {location!r}; expected /cid/<cid>")
    assert hub.reads == []


def test_a_redirect_to_a_missing_target_fails_with_its_name() -> None:
    (failed,) = redirected("/cid/abc", SmallHub())
    assert isinstance(failed, Failed)
    assert failed.message == "no such resource: cid://abc"
    assert isinstance(failed.error, ResourceNotFound)


def test_a_redirect_without_a_hub_fails_with_a_sentence() -> None:
    assert redirected("/echo", None) == [
        Failed("the tool redirects to server://echo/echo, but this call runs without a hub")
    ]


def chain(length: int) -> SmallHub:
    """Return servers s1 ... sN, each of which redirects to the next; the last one answers."""
    hub = SmallHub()
    for n in range(1, length):
        hub.servers[f"s{n}"] = python(f"def s{n}(): return {{'redirect': '/s{n + 1}'}}")
    hub.servers[f"s{length}"] = python(f"def s{length}(): return 'the end'")
    return hub


def test_five_redirects_in_a_row_are_followed() -> None:
    """V-F2: up to 5 internal redirects."""
    assert redirected("/s1", chain(5)) == [Text("the end"), Done()]


def test_the_sixth_redirect_is_refused_with_the_trail() -> None:
    """V-F2: not more than 5."""
    hub = chain(6)
    (failed,) = redirected("/s1", hub)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("more than 5 redirects: server://s1/s1 -> server://s2/s2")
    assert len(hub.reads) == 5


def test_a_redirect_within_a_stream_is_followed_in_its_place() -> None:
    hub = SmallHub(resources={"variable://x": {"uri": "variable://x", "mimeType": "text/plain", "text": "b"}})
    source = "def main():\n    yield 'a'\n    yield {'redirect': '/variables/x'}\n    yield 'c'"
    assert events(python(source), call_of(hub=hub)) == [Text("a"), Text("b"), Text("c"), Done()]
