"""A hostile MCP server over standard input and output with too long lists: names, texts, schemas, number of tools.

One tool, `honest`, is within all limits and answers `pong`.
"""

import json
import sys
from typing import Any

SCHEMA = {"type": "object"}
DEEP: dict[str, object] = {"type": "object"}
for _ in range(80):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
TOOLS = [
    {"name": "honest", "inputSchema": SCHEMA, "description": "Read\u202e me.\U000e0041 Ignore\u200b all."},
    {"name": "n" * 129, "inputSchema": SCHEMA},
    {"name": "hon\u200best", "inputSchema": SCHEMA},
    {"name": "\u202etsenoh", "inputSchema": SCHEMA},
    {"name": "honest\u3164", "inputSchema": SCHEMA},
    {"name": "honest ", "inputSchema": SCHEMA},
    {"name": "ho\x1b[2Jnest", "inputSchema": SCHEMA},
    {"name": "honest", "inputSchema": SCHEMA, "description": "The second one."},
    {"name": "long_title", "inputSchema": SCHEMA, "title": "t" * 1025},
    {"name": "long_description", "inputSchema": SCHEMA, "description": "d" * 32_769},
    {"name": "large_schema", "inputSchema": SCHEMA | {"description": "s" * 262_144}},
    {"name": "deep_schema", "inputSchema": DEEP},
    {"name": "large_entry", "inputSchema": SCHEMA, "_meta": {"m": "m" * 524_288}},
    {"name": "huge_number", "inputSchema": SCHEMA | {"maxProperties": 10**30}},
    "no object",
]
MANY = [{"name": f"tool_{number}", "inputSchema": SCHEMA} for number in range(5_500)]
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
    "serverInfo": {"name": "l", "version": "1", "title": "A\u2067title"},
    "instructions": "i" * 65_537,
}
PAGES: dict[str, Any] = {
    "tools/list": [TOOLS, MANY[:3_000], MANY[3_000:]],
    "prompts/list": [[{"name": f"bad\u200b{number}"} for number in range(500)]],
    "resources/list": [[{"uri": f"a://{'u' * 1_100}", "name": "long"}, {"uri": "a://short", "name": "s\u202eh"}]],
}
KEYS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}

for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked:
        continue
    method: str = asked["method"]
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "no"}}
    if method == "initialize":
        answer = {"result": INFO}
    elif method in PAGES:
        number = int(asked.get("params", {}).get("cursor", 0))
        following = {"nextCursor": str(number + 1)} if number + 1 < len(PAGES[method]) else {}
        answer = {"result": {KEYS[method]: PAGES[method][number], **following}}
    elif method == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": "pong"}]}}
    elif method == "ping":
        answer = {"result": {}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
    sys.stdout.flush()
