"""A program whose answers to calls are not valid JSON-RPC; the argument is the line, with ID for the id of the call."""

from __future__ import annotations

import json
import sys

INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "unusual", "version": "1"},
}

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": INFO}) + "\n")
    elif message.get("method") == "tools/call":
        line = sys.argv[1].replace("ID", str(message["id"]))
        sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
    sys.stdout.flush()
