"""An MCP server of 2026-07-28 over standard input and output whose event type can only be streamed.

    python -S pushing_server.py FOLDER

It sends an event for each line that is added to the file `events` of the folder, `{"title": ..., "id": ...}`, and
forgets it: a new stream begins with what comes after it. A file `end` ends the program, which leaves a file `ended`.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
EXTENSION = "io.modelcontextprotocol/events"
TAG = "io.modelcontextprotocol/subscriptionId"
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TYPE = {"name": "told", "description": "Something was told.", "delivery": ["push"], "payloadSchema": TITLE}
ABOUT = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"extensions": {EXTENSION: {"listChanged": False}}},
    "serverInfo": {"name": "pushing", "version": "1"},
    "ttlMs": 1000,
    "cacheScope": "private",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "server/discover": ABOUT,
    "events/list": {"events": [TYPE], "ttlMs": 1000, "cacheScope": "private"},
    "ping": {},
}
SENDING = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with SENDING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        sys.stdout.flush()


def tell(id: object, what: str, params: dict[str, Any]) -> None:
    send({"method": f"notifications/events/{what}", "params": {**params, "_meta": {TAG: id}}})


def stream(id: object) -> None:
    """Send the lines that are added from now on."""
    file = FOLDER / "events"
    known = len(file.read_text().splitlines()) if file.exists() else 0
    tell(id, "active", {"cursor": None, "truncated": False})
    while not (FOLDER / "end").exists():
        lines = file.read_text().splitlines() if file.exists() else []
        for line in lines[known:]:
            fields = json.loads(line)
            data = {"title": fields["title"]}
            event = {"eventId": fields["id"], "name": "told", "timestamp": "2026-11-27T12:00:00Z", "data": data}
            tell(id, "event", {**event, "cursor": None})
        known = len(lines)
        time.sleep(0.02)
    (FOLDER / "ended").touch()
    os._exit(0)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "events/stream":
        threading.Thread(target=stream, args=(asked["id"],), daemon=True).start()
    elif asked["method"] in ANSWERS:
        send({"id": asked["id"], "result": {"resultType": "complete", **ANSWERS[asked["method"]]}})
    else:
        send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
