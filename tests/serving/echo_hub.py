"""A program: a hub with a WebSocket at /echo/<name> that sends back what it gets. Its argument is settings as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from patchbay.app import create_app
from patchbay.serving.supervisor import serve
from patchbay.settings import Settings
from patchbay.web.application import Application
from patchbay.wire.endpoints.websocket_routes import Close, Send, WebSocketRequest

PATTERN = r"/echo/(?P<name>[a-z]+)"


class Echo:
    """One WebSocket. Some texts make it do something else than send them back."""

    def __init__(self, request: WebSocketRequest, send: Send, close: Close, marks: Path) -> None:
        self._request = request
        self._send = send
        self._close = close
        self._marks = marks

    def receive(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._send(f"{len(message)} bytes")
        elif message == "who":
            request = self._request
            received = {"path": request.path, "query": request.query, "client": request.client, **request.named}
            self._send(json.dumps({**received, "user-agent": request.headers.get("user-agent", "")}))
        elif message == "close":
            self._close(1011, "a bad frame")
        elif message == "fail":
            raise ValueError("a session that fails")
        elif message.startswith("flood "):
            for _ in range(int(message.split()[1])):
                self._send("x" * 65536)
        else:
            self._send(message)

    def closed(self, code: int) -> None:
        (self._marks / self._request.named["name"]).write_text(str(code), "utf-8")


def main() -> int:
    given: dict[str, Any] = json.loads(sys.argv[1])
    marks = Path(given.pop("marks"))
    given |= {name: Path(given[name]) for name in ("data", "servers")}

    def open_echo(request: WebSocketRequest, send: Send, close: Close) -> Echo:
        return Echo(request, send, close, marks)

    def create_echo_hub(settings: Settings) -> Application:
        app = create_app(settings)
        app.parts.websockets.add(PATTERN, open_echo)
        return app

    return serve(Settings(port=0, **given), create_echo_hub)


if __name__ == "__main__":
    sys.exit(main())
