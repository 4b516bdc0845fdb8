"""Redirects of a tool: a target inside the hub is read, a target outside is returned as a link.

Nothing outside is ever fetched. Each redirect is an entry of the call's chain, so that the limit also holds across
servers that redirect to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from patchbay.activation import Call
from patchbay.errors import ToolFailed
from patchbay.events import Content, Event, Text
from patchbay.outputs.conversion import clean

MAX_REDIRECTS = 5
REDIRECT_PREFIX = "redirect to "
HUB_SCHEMES = ("cid", "variable", "server")


def follow_redirect(location: str, call: Call) -> Iterator[Event]:
    """Yield the events of a redirect's target. Raises ToolFailed, and ResourceNotFound for a missing target."""
    scheme = location.partition("://")[0] if "://" in location else ""
    if scheme in ("http", "https"):
        yield Content({"type": "resource_link", "uri": location, "name": _name(location)})
        return
    uri = location if scheme in HUB_SCHEMES else resource_uri_of(location)
    hops = [word for word in call.chain if word.startswith(REDIRECT_PREFIX)]
    if len(hops) >= MAX_REDIRECTS:
        trail = " -> ".join(word.removeprefix(REDIRECT_PREFIX) for word in (*hops, REDIRECT_PREFIX + uri))
        raise ToolFailed(f"more than {MAX_REDIRECTS} redirects: {trail}")
    if call.hub is None:
        raise ToolFailed(f"the tool redirects to {uri}, but this call runs without a hub")
    yield _content(call.hub.read(uri, replace(call, chain=(*call.chain, REDIRECT_PREFIX + uri))))


def resource_uri_of(path: str) -> str:
    """Return the resource URI of a path of this hub. Raises ToolFailed for any other path.

    A server alone means its main tool, which has its name, as in an address; a query is its arguments.
    """
    bare, _, query = path.partition("#")[0].partition("?")
    if not bare.startswith("/") or bare.startswith("//") or len(bare) < 2:
        raise ToolFailed(
            f"cannot follow a redirect to {path!r}; expected /cid/<cid>, /variables/<name>,"
            " /<server>[/<function>][?<arguments>], a cid:// URI, or an http(s) URL"
        )
    if found := re.fullmatch(r"/cid/([a-z0-9]+)(?:\.\w+)?", bare):
        return f"cid://{found[1]}"
    if found := re.fullmatch(r"/variables/([^/]+)", bare):
        return f"variable://{found[1]}"
    name, _, function = bare[1:].partition("/")
    return f"server://{name}/{function or name}" + (f"?{query}" if query else "")


def _content(found: dict[str, Any]) -> Event:
    """Return a resource content as the event of a tool that returns the same content."""
    if isinstance(found.get("text"), str):
        return Text(clean(found["text"]))
    family = str(found.get("mimeType", "")).partition("/")[0]
    if family in ("image", "audio"):
        return Content({"type": family, "data": found["blob"], "mimeType": found["mimeType"]})
    return Content({"type": "resource", "resource": found})


def _name(url: str) -> str:
    parts = urlsplit(url)
    return parts.path.rstrip("/").rpartition("/")[2] or parts.hostname or url
