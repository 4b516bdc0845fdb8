"""An MCP server over standard input and output whose lists are changed by a call: `control` takes the new lists.

    {"tools": [...], "prompts": [...], "templates": [...], "instructions": "..."}

Each member is optional. Every other tool answers with its name. After `control` it announces that its lists changed.
"""

import json
import sys
from typing import Any

CONTROL = {"name": "control", "description": "Change the lists.", "inputSchema": {"type": "object"}}
KEYS = {"tools/list": "tools", "prompts/list": "prompts", "resources/templates/list": "resourceTemplates"}
lists: dict[str, list[Any]] = {"tools": [CONTROL], "prompts": [], "resourceTemplates": []}
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")},
    "serverInfo": {"name": "changing", "version": "1", "title": "Changing"},
    "instructions": "Call the tools.",
}


def write(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if len(sys.argv) > 1:
    lists["tools"] += json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked:
        continue
    method: str = asked["method"]
    params: dict[str, Any] = asked.get("params") or {}
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "no"}}
    announced: list[str] = []
    if method == "initialize":
        answer = {"result": INFO}
    elif method in KEYS:
        answer = {"result": {KEYS[method]: lists[KEYS[method]]}}
    elif method == "tools/call":
        if params["name"] == "control":
            given = params["arguments"]
            lists |= {"tools": [CONTROL, *given["tools"]]} if "tools" in given else {}
            lists |= {"prompts": given["prompts"]} if "prompts" in given else {}
            lists |= {"resourceTemplates": given["templates"]} if "templates" in given else {}
            INFO |= {"instructions": given["instructions"]} if "instructions" in given else {}
            announced = ["tools", "prompts", "resources"]
        answer = {"result": {"content": [{"type": "text", "text": f"ran {params['name']}"}]}}
    elif method in ("ping", "logging/setLevel"):
        answer = {"result": {}}
    write({"id": asked["id"], **answer})
    for kind in announced:
        write({"method": f"notifications/{kind}/list_changed"})
