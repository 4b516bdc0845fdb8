"""A server in a file of its own that speaks the handshake by hand, starts in milliseconds and misbehaves on request.

`python -S scripted.py [BEHAVIOUR...]`. Its tool `echo` gives its arguments back; the other tools are named after what
they do. It is not an MCP library's work on purpose: what a broken server does, no library lets one do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

BEHAVIOUR = set(sys.argv[1:])
TOOLS = ["echo", "ask", "flood", "progress", "hang", "vanish", "error", "broken", "deaf-hang", "huge"]
FOREVER = 600.0


def send_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def read_message() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        end()
    found: dict[str, Any] = json.loads(line)
    return found


def end() -> None:
    """What happens when the client closes the pipe."""
    while "deaf" in BEHAVIOUR:
        time.sleep(FOREVER)
    sys.exit(0)


def initialize(id: Any, params: dict[str, Any]) -> None:
    if "never" in BEHAVIOUR:
        time.sleep(FOREVER)
    info = {"name": "scripted", "version": "1", "title": json.dumps(params["capabilities"], sort_keys=True)}
    capabilities: dict[str, Any] = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
    result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    send_message({"id": id, "result": result})


def call(id: Any, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    if "roots" in BEHAVIOUR:
        send_message({"id": "r1", "method": "roots/list"})
        arguments = {"roots": read_message().get("error", {}).get("code")}
    if name in ("hang", "deaf-hang"):
        if name == "deaf-hang":
            BEHAVIOUR.add("deaf")
        send_message(log(f"{name} began"))
        heard = read_message()
        send_message(log({"heard": heard["method"], "same": heard.get("params", {}).get("requestId") == id}))
        return
    if name == "vanish":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "error":
        send_message({"id": id, "error": {"code": -32007, "message": "no", "data": {"why": "because"}}})
        return
    if name == "ask":
        send_message({"id": "q1", "method": "elicitation/create", "params": {"message": "who?"}})
        arguments = read_message()
    for number in range(arguments.get("times", 0)):
        if name == "flood":
            send_message(log(number))
        else:
            params = {"progressToken": token, "progress": number, "total": arguments["times"]}
            send_message({"method": "notifications/progress", "params": params})
    text = "x" * arguments["bytes"] if name == "huge" else json.dumps(arguments, sort_keys=True)
    result = {"content": [{"type": "text", "text": text}], "unknown": {"kept": None}}
    send_message({"id": id, "result": {"strange": True} if name == "broken" else result})


def log(data: Any) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": "info", "data": data}}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    page = int(params.get("cursor", "0"))
    if "endless" in BEHAVIOUR:
        return {"tools": [tool(f"echo-{page}")], "nextCursor": str(page + 1)}
    if "same" in BEHAVIOUR:
        return {"tools": [tool("echo"), tool("progress")], "nextCursor": str(page + 1)}
    if "number" in BEHAVIOUR:
        return {"tools": [tool("echo")], "nextCursor": 7}
    if "empty-cursor" in BEHAVIOUR:
        return {"tools": [tool("echo")], "nextCursor": ""}
    if "gone" in BEHAVIOUR:
        return {"tools": [tool(f"echo-{page}")], "nextCursor": "1"} if page == 0 else {"nope": []}
    if "nameless" in BEHAVIOUR:
        return {"tools": [tool("echo"), {"inputSchema": {"type": "object"}}, "text"]}
    if "circle" in BEHAVIOUR:
        return {"tools": [tool("echo")], "nextCursor": "0"}
    size = 3
    tools = [tool(name) for name in TOOLS[page * size : (page + 1) * size]]
    return {"tools": tools} | ({"nextCursor": str(page + 1)} if (page + 1) * size < len(TOOLS) else {})


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "x-unknown": name}


def start() -> None:
    """What it does before it says anything."""
    if "deaf" in BEHAVIOUR:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "noise" in BEHAVIOUR:
        sys.stdout.write("Welcome to my server!\n\n{not json}\n[1, 2]\n")
        sys.stdout.flush()
    if "flood" in BEHAVIOUR:
        sys.stderr.write("".join(f"line {number} {'x' * 200}\n" for number in range(20_000)))
    if "crash" in BEHAVIOUR:
        sys.stderr.write("no configuration found\n")
        sys.exit(3)
    if "family" in BEHAVIOUR:
        start_family()


def start_family() -> None:
    """A child, a grandchild in a session of its own, and one that is deaf to SIGTERM; their ids on standard error."""
    for deaf in (False, True):
        child = os.fork()
        if child == 0:
            os.setsid()
            if deaf:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            grandchild = os.fork()
            sys.stderr.write(f"pid {os.getpid()}\n")
            sys.stderr.flush()
            if grandchild == 0 or deaf:
                time.sleep(FOREVER)
            os._exit(0)
        sys.stderr.write(f"pid {child}\n")
    sys.stderr.flush()


def main() -> None:
    start()
    while True:
        message = read_message()
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if "crash-on-discover" in BEHAVIOUR and method == "server/discover":
            sys.exit(4)
        if method == "initialize":
            initialize(id, params)
        elif method == "tools/list":
            send_message({"id": id, "result": listed(params)})
        elif method == "tools/call":
            call(id, params)
        elif id is not None and method is not None:
            send_message({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})


main()
