"""A room with members, servers, calls and talk, made over HTTP as programs do it."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import httpx2

Json = dict[str, Any]

SEARCH: Json = {
    "name": "search",
    "description": "Search the notes on this laptop.",
    "inputSchema": {
        "type": "object",
        "properties": {"words": {"type": "string", "maxLength": 80, "description": "Words to look for."}},
        "required": ["words"],
    },
    "annotations": {"readOnlyHint": True},
}
APPEND: Json = {
    "name": "append",
    "description": "Add a line to a note.",
    "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}, "line": {"type": "string"}}},
}


class RoomMember:
    """One member of a room, over HTTP."""

    def __init__(self, client: httpx2.Client, room: str, name: str, *caps: str) -> None:
        self._client = client
        self._path = f"/rooms/{room}"
        self._session = ""
        payload = {"proto": "ENSO-1", "caps": list(caps), "agent": {"name": name, "version": "1.0"}}
        answer = self._client.post(self._path, json={"type": "hello", "payload": payload})
        answer.raise_for_status()
        self._session = answer.json()["session"]

    def says(self, type: str, **payload: Any) -> None:
        """Post one envelope."""
        envelope = {"id": str(uuid4()), "ts": "2026-11-22T12:00:00.000Z", "room": "local", "from": self._session}
        message = envelope | {"kind": "event", "type": type, "payload": payload}
        answer = self._client.post(self._path, json=message, headers={"Enso-Session": self._session})
        assert answer.status_code == 200, answer.text

    def calls(self, server: str, name: str, **arguments: Any) -> str:
        """Call a tool; returns the callId."""
        id = str(uuid4())
        self.says("tool.call", callId=id, provider="mcp", serverId=server, name=name, args=arguments)
        return id

    def answers(self, tool: str, text: str) -> None:
        """Answer every open call of a tool."""
        for call in self._client.get(f"{self._path}.json").json()["calls"]:
            if call["outcome"] == "open" and call["tool"] == tool:
                content = [{"type": "text", "text": text}]
                self.says("tool.result", callId=call["call"], ok=True, result={"content": content})


def enliven(client: httpx2.Client, room: str, pause: float = 0.0) -> tuple[RoomMember, RoomMember]:
    """Create a room; a laptop announces `notes` there and a planner calls it. `pause` is in seconds."""
    client.put(f"/rooms/{room}", json={"policy": {"history": "all"}}).raise_for_status()
    laptop = RoomMember(client, room, "Ada's laptop", "tool.host", "mcp.server:notes", "can.speak")
    laptop.says("mcp.announce", serverId="notes", tools=[SEARCH, APPEND], resources=[])
    planner = RoomMember(client, room, "planner", "tool.call", "can.speak", "mcp.client")
    planner.says("chat.msg", text="I look for what we know about the harbour.")
    for number, words in enumerate(("harbour", "tides", "ferry", "tides in May")):
        id = planner.calls("notes", "search", words=words)
        time.sleep(pause * (1 + number % 3))
        laptop.says("tool.result", callId=id, ok=True, result={"content": [{"type": "text", "text": "2 notes"}]})
    id = planner.calls("notes", "append", note="harbour", line="The ferry leaves at 7.")
    time.sleep(pause)
    laptop.says("tool.result", callId=id, ok=False, error="the note is read-only")
    planner.says("chat.msg", text="The note is read-only. Can you open it?")
    planner.calls("notes", "append", note="ferry", line="It leaves at 7.")
    return laptop, planner
