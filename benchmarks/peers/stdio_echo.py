"""A small MCP server on standard input and output with the tool `echo`, without an SDK: one line in, one line out."""

from __future__ import annotations

import json
import sys
from typing import Any

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
INFO = {"name": "echo", "version": "1"}
TOOL = {
    "name": "echo",
    "description": "Return the message.",
    "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of one request in the revision of the client, or in the newest of REVISIONS."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        agreed = asked if asked in REVISIONS else REVISIONS[-1]
        return {"protocolVersion": agreed, "capabilities": {"tools": {}}, "serverInfo": INFO}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["message"]}]}
    return {}


def main() -> None:
    """Answer until the end of the input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
