"""An MCP server over standard input and output that keeps a number in its process.

    python -S stateful_server.py [LOG]

`count` adds one and gives the number, `ask` asks for a name, `crash` ends with exit code 3. It declares subscriptions,
and writes the methods that it receives to LOG. Its revisions are older than 2026-07-28.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "ask", "crash")]
number = 0
asking: dict[str, Any] = {}
"""The ids of calls by the id of their question."""


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(id: Any, words: str) -> None:
    send(id=id, result={"content": [{"type": "text", "text": words}]})


def call(id: Any, name: str) -> None:
    global number
    if name == "count":
        number += 1
        say(id, f"{os.getpid()} {number}")
    elif name == "ask":
        question = f"question-{id}"
        asking[question] = id
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        send(id=question, method="elicitation/create", params={"message": "Who?", "requestedSchema": schema})
    else:
        sys.exit(3)


for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write(f"{os.getpid()} {method}\n")
    if method is None and id in asking:
        answer = message.get("result", {}).get("content", {}).get("name", "refused")
        say(asking.pop(id), f"{os.getpid()} {answer}")
    elif method == "initialize":
        capabilities = {"tools": {}, "resources": {"subscribe": True}}
        info = {"name": "stateful", "version": "1"}
        revision = params["protocolVersion"]
        send(id=id, result={"protocolVersion": revision, "capabilities": capabilities, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": TOOLS})
    elif method == "resources/list":
        send(id=id, result={"resources": []})
    elif method in ("ping", "resources/subscribe"):
        send(id=id, result={})
    elif method == "tools/call":
        call(id, params["name"])
    elif id is not None and method is not None:
        send(id=id, error={"code": -32601, "message": f"no method {method}"})
