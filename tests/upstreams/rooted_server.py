"""A program that works in the roots of its client, as the official server-filesystem does.

It asks for them after the handshake and after each change; until then, and after a refusal, it keeps what it has.
"""

from __future__ import annotations

import json
import sys
from typing import Any

roots = ["file:///command-line"]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"serverInfo": {"name": "rooted", "version": "1"}, "capabilities": {"tools": {}}}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", **info}})
    elif method in ("notifications/initialized", "notifications/roots/list_changed"):
        send({"id": "roots", "method": "roots/list"})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": "roots", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        send({"id": id, "result": {"content": [{"type": "text", "text": " ".join(roots)}]}})
    elif method == "ping":
        send({"id": id, "result": {}})
    elif method is None and id == "roots" and "result" in message:
        roots = [root["uri"] for root in message["result"]["roots"]]
    elif method is not None and id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
