"""Translates objects of the newest revision for older revisions, and events to notifications.

Handlers, descriptors and the fold produce only the newest form. This module removes or replaces the parts that an older
revision does not have.
Source: MCP specification, changelog of each revision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from patchbay import __version__
from patchbay.catalogue.servers.server import Server
from patchbay.errors import MethodNotFound, PatchbayError, ResourceNotFound
from patchbay.events import LOG_LEVELS, Data, Event, Log, Progress, Text, ToolUse
from patchbay.jsonrpc import Failure, Id, Notification, failure
from patchbay.messages.callers import Caller
from patchbay.messages.versions import Revision

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
PINNED_TTL = 365 * 24 * 3600 * 1000
"""Cache lifetime in milliseconds of an answer from a pinned address, which never changes."""


def for_revision(wire: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """Return a descriptor in the form of one revision."""
    shown = {key: value for key, value in wire.items() if key not in revision.absent}
    output = shown.get("outputSchema")
    if output is not None and not revision.any_structure and output.get("type") != "object":
        del shown["outputSchema"]
    return shown


def implementation(server: Server, revision: Revision) -> dict[str, Any]:
    """Return the Implementation object of a server."""
    info: dict[str, Any] = {"name": server.name, "version": __version__}
    if server.title and "title" not in revision.absent:
        info["title"] = server.title
    if server.description and "description@implementation" not in revision.absent:
        info["description"] = server.description
    if "icons" in server.config and "icons" not in revision.absent:
        info["icons"] = server.config["icons"]
    info |= server.config.get("server_info", {})
    return info


def _server_info(server: Server) -> dict[str, Any]:
    version = server.config.get("server_info", {}).get("version", __version__)
    return {"name": server.name, "version": version}


def stamped(
    result: dict[str, Any], server: Server, revision: Revision, cache: bool = False, stays: bool = True
) -> dict[str, Any]:
    """Return a result with the members that 2026-07-28 requires; results of older revisions stay unchanged.

    With `cache` it has a cache lifetime: PINNED_TTL if the server is settled and the answer `stays`, else 0.
    """
    if not revision.modern:
        return result
    result.setdefault("resultType", "complete")
    result["_meta"] = {**result.get("_meta", {}), SERVER_INFO: _server_info(server)}
    if cache and result["resultType"] == "complete":
        # Only answers from a pinned address never change.
        lasting = stays and server.is_settled
        result["ttlMs"] = PINNED_TTL if lasting else 0
        result["cacheScope"] = "public" if lasting else "private"
    return result


def tool_result(result: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Return a tool's result in the form of one revision."""
    shown: dict[str, Any] = {"content": [block(item, revision) for item in result["content"]]}
    # The member is also sent on success, because some clients read it without a default.
    shown["isError"] = bool(result.get("isError", False))
    structured = result.get("structuredContent")
    if "structuredContent" in result and (
        revision.any_structure or (revision.structured and isinstance(structured, dict))
    ):
        shown["structuredContent"] = structured
    if result.get("_meta") and "_meta" not in revision.absent:
        shown["_meta"] = result["_meta"]
    return shown


def block(item: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Return a content block in the form of a revision: audio and links become text in revisions without them."""
    kind = item.get("type")
    if kind == "audio" and not revision.audio:
        size = len(item.get("data", ""))
        return {"type": "text", "text": f"[audio, {item.get('mimeType')}, {size} base64 characters]"}
    if kind == "resource_link" and not revision.resource_links:
        return {"type": "text", "text": str(item.get("uri"))}
    return item


def not_served(problem: PatchbayError, id: Id | None, revision: Revision | None) -> Failure:
    """Return an error answer in the form of a revision: its code for a missing resource, its HTTP status."""
    answer = failure(id, problem)
    if revision is None:
        return answer
    error = dict(answer.error)
    if isinstance(problem, ResourceNotFound):
        error["code"] = revision.not_found
    if revision.details and isinstance(error.get("data", {}), dict):
        error["data"] = _with_details(error["message"], error.get("data", {}))
    if revision.modern:
        status = 404 if isinstance(problem, MethodNotFound) else answer.status
        return Failure(id, error, status, answer.retry_after)
    # Up to 2025-11-25 every answered request has the HTTP status 200.
    return Failure(id, error, 200, answer.retry_after)


def _with_details(words: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an error with a text as `details`; a list of details is named `problems` then."""
    details = data.get("details")
    listed = {"problems": details} if isinstance(details, list) else {}
    return {**data, **listed, "details": details if isinstance(details, str) else words}


class Notifier:
    """Converts the events of one call to the notifications for its caller, in order.

    Progress needs the caller's token and only grows; log messages need a level. With `streams`, each piece of text is
    sent as a progress message and counts one; the author's later numbers and totals grow by the pieces, so that
    progress never goes back.
    """

    def __init__(self, caller: Caller, token: str | int | None, streams: bool) -> None:
        self._token = token
        self._streams = streams
        self._lowest_level = caller.log_level
        self._messages = caller.revision.progress_messages
        self._reached = float("-inf")
        self._pieces: float = 0  # no 0.0: without pieces the author's numbers stay exact

    def notifications_for(self, event: Event) -> Iterable[Notification]:
        """Yield the notifications for one event; most events have none."""
        if isinstance(event, Log):
            return self._logged(event)
        return () if self._token is None else self._progress(event)

    def _progress(self, event: Event) -> Iterator[Notification]:
        if isinstance(event, Progress):
            total = event.total if event.total is None else event.total + self._pieces
            yield from self._moved(event.progress + self._pieces, total, event.message)
        elif isinstance(event, (Text, Data)) and event.text and self._streams:
            yield from self._moved(self._next(), None, event.text)
        elif isinstance(event, ToolUse):
            yield from self._moved(self._next(), None, f"Using tool: {event.name}")

    def _next(self) -> float:
        """Return the next number; for numbers too large to add one, the next larger float."""
        reached = max(self._reached, 0.0)
        further = max(reached + 1, math.nextafter(reached, math.inf))
        self._pieces += further - reached
        return further

    def _moved(self, progress: float, total: float | None, message: str | None) -> Iterator[Notification]:
        if progress <= self._reached:
            return
        self._reached = progress
        params: dict[str, Any] = {"progressToken": self._token, "progress": _short(progress)}
        if total is not None:
            params["total"] = _short(total)
        if message is not None and self._messages:
            params["message"] = message
        yield Notification("notifications/progress", params)

    def _logged(self, event: Log) -> Iterator[Notification]:
        level, lowest = event.level if event.level in LOG_LEVELS else "info", self._lowest_level
        if lowest not in LOG_LEVELS or LOG_LEVELS.index(level) < LOG_LEVELS.index(lowest):
            return
        params: dict[str, Any] = {"level": level, "data": event.data}
        if event.logger:
            params["logger"] = event.logger
        yield Notification("notifications/message", params)


def _short(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number
