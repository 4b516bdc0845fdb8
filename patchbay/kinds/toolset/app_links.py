"""Links to apps in the results of a toolset: an app has another URI there than at its own server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.activation import Events
from patchbay.app_uris import APP_SCHEME, public_links
from patchbay.events import Content, Done, Event, Failed


def is_app(uri: str) -> bool:
    """Whether a URI is that of an app."""
    return uri.startswith(APP_SCHEME)


def with_public_links(events: Events, server: str) -> Events:
    """Yield the events of a server's tool with the URIs that its apps have in a toolset."""
    reply: Any = None
    try:
        while True:
            reply = yield _with_links(events.send(reply), server)
    except StopIteration:
        return
    finally:
        events.close()


def _with_links(event: Event, server: str) -> Event:
    if isinstance(event, Content):
        return Content(public_links([dict(event.block)], server)[0])
    if isinstance(event, Done | Failed) and event.result is not None:
        return replace(event, result=_result_with_links(event.result, server))
    return event


def _result_with_links(result: Mapping[str, Any], server: str) -> Mapping[str, Any]:
    blocks = result.get("content")
    if not isinstance(blocks, list) or not all(isinstance(one, dict) for one in blocks):
        return result
    return {**result, "content": public_links(blocks, server)}
