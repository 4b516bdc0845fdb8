"""An MCP server over standard input and output that shows its variable TOKEN wherever it can: in standard error, in
JSON-RPC errors, and in the words with which it ends.
"""

import json
import os
import sys

TOKEN = os.environ["TOKEN"]
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("fails", "ends", "works")]
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "leaking", "version": "1"},
}
sys.stderr.write(f"started with {TOKEN}\n")
sys.stderr.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"result": {"initialize": INFO, "tools/list": {"tools": TOOLS}}.get(asked["method"], {})}
    if asked["method"] == "tools/call":
        name = asked["params"]["name"]
        if name == "ends":
            sys.stderr.write(f"{TOKEN} is wrong\n")
            sys.exit(3)
        answer = {"result": {"content": [{"type": "text", "text": "worked"}]}}
        if name == "fails":
            answer = {"error": {"code": -32000, "message": f"the token {TOKEN} is refused"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
    sys.stdout.flush()
