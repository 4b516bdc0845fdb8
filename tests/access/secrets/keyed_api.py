"""An HTTP API with one operation, which needs the header X-Key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "shop", "version": "1"},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"key": []}],
    "paths": {"/order": {"get": {"operationId": "order", "responses": {"200": {"description": "an order"}}}}},
}


@contextmanager
def keyed_api(seen: list[str]) -> Iterator[str]:
    """Run the API; `seen` gets the key of each request for its operation. Yields its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/order":
                seen.append(self.headers.get("X-Key", ""))
            body = json.dumps({"id": 1} if self.path == "/order" else DOCUMENT).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
