"""Which sessions read the call of an announced server: its owner, and those that could not mistake it for their own.

A program that shares a server runs each `tool.call` with the id of its server. So a session with the capability
`mcp.server:<id>` reads the calls of `<id>` only if it owned the server at that place of the log, or is the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.rooms.feed import Delivery
from patchbay.rooms.record.hello import SERVER


def is_for(state: Mapping[str, Any], session: str, delivery: Delivery) -> bool:
    """Whether a session reads a delivered call; `state` is that of its entry or a later one."""
    envelope = delivery.envelope
    payload = envelope["payload"]
    server = payload.get("serverId")
    record = state["sessions"].get(session)
    if record is None or envelope["from"] == session or f"{SERVER}{server}" not in record["caps"]:
        return True
    call = state["calls"].get(payload.get("callId"))
    if call is not None and call["seq"] == delivery.seq:
        return bool(call["owner"] == session)
    # The call has its result: nothing has to run it any more.
    now = state["servers"].get(server)
    return now is not None and now["owner"] == session and bool(now["seq"] < (delivery.seq or 0))
