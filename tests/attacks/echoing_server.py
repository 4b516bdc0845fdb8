"""An MCP server over standard input and output whose tool says which arguments it got; it checks none of them.

The first argument of the program is the file with the description of the tool.
"""

import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"account": {"type": "string"}, "query": {"type": "string"}},
    "required": ["account"],
}
OPEN = {**SCHEMA, "additionalProperties": True}
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echoing", "version": "1"},
}

for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked:
        continue
    method: str = asked["method"]
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "no"}}
    if method == "initialize":
        answer = {"result": INFO}
    elif method == "tools/list":
        text = Path(sys.argv[1]).read_text("utf-8")
        tools = [
            {"name": name, "description": text, "inputSchema": one} for name, one in (("get", SCHEMA), ("open", OPEN))
        ]
        answer = {"result": {"tools": tools}}
    elif method == "tools/call":
        given = asked["params"].get("arguments", {})
        answer = {"result": {"content": [{"type": "text", "text": json.dumps(given)}]}}
    elif method == "ping":
        answer = {"result": {}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
    sys.stdout.flush()
