"""A program whose output a test writes byte by byte: `python -S puppet.py SOCKET [modern]`.

It makes the handshake, or answers `server/discover`, by itself. From then on, what it reads goes to the socket, and
what the socket brings goes to its standard output. It ends when the socket closes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import Any

CAPABILITIES: dict[str, Any] = {"tools": {}, "logging": {}}
INFO = {"name": "puppet", "version": "1"}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": CAPABILITIES,
    "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    "ttlMs": 0,
    "cacheScope": "private",
}


def serve(link: socket.socket, last: str, result: dict[str, Any]) -> None:
    """Answer until the message `last`, then connect the socket and the standard streams."""
    for line in iter(sys.stdin.buffer.readline, b""):
        message = json.loads(line)
        if "id" in message:
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            os.write(1, answer.encode() + b"\n")
        if message["method"] == last:
            break
    threading.Thread(target=show, args=(link,), daemon=True).start()
    for line in iter(sys.stdin.buffer.readline, b""):
        link.sendall(line)


def show(link: socket.socket) -> None:
    """Write what the socket brings, and end with it."""
    while data := link.recv(65536):
        while data:
            data = data[os.write(1, data) :]
    os._exit(7)


if __name__ == "__main__":
    far = socket.socket(socket.AF_UNIX)
    far.connect(sys.argv[1])
    if "modern" in sys.argv:
        serve(far, "server/discover", DISCOVERED)
    else:
        serve(far, "notifications/initialized", HANDSHAKE)
