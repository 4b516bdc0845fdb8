"""An MCP server over standard input and output that floods its client, in the way of its first argument.

Ways: `changes` (its tools change, all the time), `messages` (log messages), `requests` (pings), `noise` (lines that are
not messages), `blank` (empty lines), `errors` (lines on standard error), `quiet`. The second argument is a file that is
created when the flood begins. It answers requests all the while.
"""

import json
import sys
import threading
import time
from pathlib import Path

WAY = sys.argv[1]
TOOL = {"name": "ping", "inputSchema": {"type": "object"}}
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}
INFO = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "f", "version": "1"}}
RESULTS = {
    "initialize": INFO,
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "pong"}]},
}
LINES = {
    "changes": '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n',
    "messages": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n',
    "requests": '{"jsonrpc":"2.0","id":"p","method":"ping"}\n',
    "noise": "this is not a message at all\n",
    "blank": "\n",
    "errors": "something is wrong\n",
}
lock = threading.Lock()
answering = threading.Event()


def flood() -> None:
    """Write as fast as the client reads."""
    out, lines = (sys.stderr if WAY == "errors" else sys.stdout), LINES[WAY] * 100
    out.write(lines)
    out.flush()
    Path(sys.argv[2]).touch()
    while True:
        while answering.is_set():  # answers first
            time.sleep(0.001)
        with lock:
            out.write(lines)
            out.flush()


for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked:
        continue
    found = RESULTS.get(asked["method"])
    answer = {"result": found} if found else {"error": {"code": -32601, "message": "no"}}
    answering.set()
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
        sys.stdout.flush()
    answering.clear()
    if asked["method"] == "tools/list" and WAY in LINES and threading.active_count() == 1:
        threading.Thread(target=flood, daemon=True).start()
