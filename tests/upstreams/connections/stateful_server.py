"""An MCP server over standard input and output that keeps a number in its process.

    python -S stateful_server.py [LOG]

`count` adds one and gives the number, `ask` asks for a name, `crash` ends with exit code 3. It declares subscriptions,
and writes the methods that it receives to LOG. Its revisions are older than 2026-07-28.

Its answers begin with the name that it gives to its process (prctl(2), PR_SET_NAME): a confined process does not know
the number by which others see it.
"""

import ctypes
import json
import secrets
import sys
from pathlib import Path
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "ask", "crash")]
PR_SET_NAME = 15
number = 0
mark = f"st-{secrets.token_hex(6)}"
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
        say(id, f"{mark} {number}")
    elif name == "ask":
        question = f"question-{id}"
        asking[question] = id
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        send(id=question, method="elicitation/create", params={"message": "Who?", "requestedSchema": schema})
    else:
        sys.exit(3)


ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(mark.encode()), 0, 0, 0)
for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write(f"{mark} {method}\n")
    if method is None and id in asking:
        answer = message.get("result", {}).get("content", {}).get("name", "refused")
        say(asking.pop(id), f"{mark} {answer}")
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
