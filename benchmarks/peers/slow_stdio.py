"""A small MCP server on standard input and output with the tool `wait`, which answers calls at the same time."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

INFO = {"name": "slow", "version": "1"}
TOOL = {
    "name": "wait",
    "description": "Wait so long.",
    "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]},
}
_writing = threading.Lock()


def answer(method: str) -> dict[str, Any]:
    """Return the result of one request in revision 2025-11-25."""
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "waited"}]}
    return {}


def send_answer(message: dict[str, Any]) -> None:
    """Write the answer to one request."""
    with _writing:
        sys.stdout.write(
            json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"])}) + "\n"
        )
        sys.stdout.flush()


def main() -> None:
    """Answer until the end of the input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        pause = message["params"]["arguments"]["seconds"] if message["method"] == "tools/call" else 0
        if pause:
            threading.Timer(pause, send_answer, (message,)).start()
        else:
            send_answer(message)


if __name__ == "__main__":
    main()
