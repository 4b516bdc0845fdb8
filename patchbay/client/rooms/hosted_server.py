"""A server of this machine that rooms call: its descriptors, and one run of one call as partials and a result."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

from patchbay.activation import PAUSE
from patchbay.client.addresses.targets import Target
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.errors import PatchbayError
from patchbay.events import Log, Progress

Json = dict[str, Any]

TOOL, RESOURCE, PROMPT = "tools/call", "resources/read", "prompts/get"
METHODS = (TOOL, RESOURCE, PROMPT)
"""The methods that a call in a room may have."""

CANCEL_POLL_SECONDS = 0.1
"""How soon a running call notices that it is cancelled."""

MAX_ID_CHARACTERS = 64
_OTHER = re.compile(r"[^A-Za-z0-9.-]+|_{2,}")


class HostedServer:
    """One server under its id in the rooms. `connect` opens the connection, or returns the open one."""

    def __init__(self, id: str, target: Target, connect: Callable[[Target], Connection]) -> None:
        self.id = id
        self.target = target
        self._connect = connect

    def announcement(self) -> Json:
        """Return the payload of `mcp.announce`. Raises Unreachable, McpFailure."""
        connection = self._connect(self.target)
        offered = connection.capabilities
        return {
            "serverId": self.id,
            "tools": connection.list_tools(),
            "resources": connection.list_resources() if "resources" in offered else [],
            "prompts": connection.list_prompts() if "prompts" in offered else [],
        }

    def run(self, name: str, arguments: Json, cancelled: Event, method: str = TOOL) -> Iterator[Json | None]:
        """Call a tool: yield what `tool.partial` says, then `{"result": <payload of tool.result without callId>}`.

        Yields None when nothing came for a moment. With another `method`, read the resource whose URI is `name`, or get
        the prompt of this name. Ends without a result when `cancelled` is set; the server is told so.
        """
        if method not in METHODS:
            yield {
                "result": {
                    "ok": False,
                    "error": f"the method {method:.40} is unknown; expected one of {', '.join(METHODS)}",
                }
            }
            return
        try:
            connection = self._connect(self.target)
            running = connection.request(
                method,
                {"uri": name} if method == RESOURCE else {"name": name, "arguments": arguments},
                timeout=math.inf,
                pauses=itertools.repeat(CANCEL_POLL_SECONDS),
            )
            while not cancelled.is_set():
                try:
                    item = next(running)
                except StopIteration as end:
                    yield {"result": _payload(end.value)}
                    return
                yield None if item is PAUSE else _partial(item)
            running.close()
        except McpFailure as problem:
            yield {"result": {"ok": False, "error": problem.message}}
        except PatchbayError as problem:
            yield {"result": {"ok": False, "error": f"the server {self.id} gave no answer: {problem.message}"}}


def _partial(item: Any) -> Json | None:
    if isinstance(item, Progress):
        more = {"total": item.total, "message": item.message}
        if item.is_text:
            more |= {"type": "text", "text": item.message}
        return {"progress": item.progress} | {name: value for name, value in more.items() if value is not None}
    return {"level": item.level, "data": item.data} if isinstance(item, Log) else None


def _payload(result: Json) -> Json:
    shown = {name: value for name, value in result.items() if name not in ("_meta", "resultType")}
    if result.get("resultType", "complete") != "complete":
        return {"ok": False, "error": "the tool asks its caller a question, which a room cannot pass on"}
    if not result.get("isError"):
        return {"ok": True, "result": shown}
    blocks = [block for block in result.get("content", []) if isinstance(block, dict)]
    error = " ".join(str(block["text"]) for block in blocks if block.get("type") == "text")
    return {"ok": False, "result": shown, "error": error or "the tool failed"}


def default_id(address: str) -> str:
    """Return the id of a server in a room for an address: its profile, file, package or host."""
    place = address.partition("?")[0].rstrip("/")
    last = place.rpartition("/")[2] or place
    words = last.removeprefix("mcp+stdio:").split()
    word = Path(words[-1] if words else last).stem.lstrip("@")
    found = _OTHER.sub("-", word).strip("-._")[:MAX_ID_CHARACTERS]
    return found or "server"
