"""An HTTP API with one operation, which needs the header X-Key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
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
def keyed_api(seen: list[str], before_refusal: Callable[[], object] | None = None) -> Iterator[str]:
    """Run the API; `seen` gets the key of each request for its operation. Yields its base URL.

    With `before_refusal`, which is called first, it refuses the operation and repeats the key.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/order":
                seen.append(self.headers.get("X-Key", ""))
            status = 200
            found: Mapping[str, object] = {"id": 1} if self.path == "/order" else DOCUMENT
            if self.path == "/order" and before_refusal is not None:
                before_refusal()
                status, found = 403, {"message": f"the key {self.headers.get('X-Key')} may not order"}
            body = json.dumps(found).encode()
            self.send_response(status)
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
