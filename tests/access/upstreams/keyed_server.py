"""A server of the official Python SDK that wants a key of each caller.

    python keyed_server.py PORT LOG REFUSED

A key is `key-of-NAME-...`; NAME is whom it stands for. It may come as `Authorization: Bearer`, as the password of
`Authorization: Basic`, in `X-Api-Key`, or as `?key=`. The file `REFUSED` has the keys that are refused, one a line.
Each request adds a line of JSON to `LOG`: its path, its key and its headers.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

PORT, LOG, REFUSED = sys.argv[1:]


class Verifier(TokenVerifier):
    """Accepts every key of the right form that is not refused."""

    async def verify_token(self, token: str) -> AccessToken | None:
        parts = token.split("-")
        if parts[:2] != ["key", "of"] or token in Path(REFUSED).read_text("utf-8").splitlines():
            return None
        return AccessToken(token=token, client_id="client", scopes=[], subject=parts[2], claims={"iss": "here"})


server = MCPServer(
    "keyed",
    token_verifier=Verifier(),
    auth=AuthSettings.model_validate(
        {"issuer_url": "https://issuer.example", "resource_server_url": f"http://127.0.0.1:{PORT}/mcp"}
    ),
)


@server.tool()
def whoami() -> str:
    """Name whom the key stands for."""
    token = get_access_token()
    return "no key" if token is None else str(token.subject)


class Keys:
    """Reads the key of each request wherever it is, and writes the request to the log."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            query = dict(parse_qsl(scope["query_string"].decode()))
            kind, _, text = headers.get("authorization", "").partition(" ")
            if kind == "Basic":
                text = base64.b64decode(text).decode().partition(":")[2]
            key = text or headers.get("x-api-key", "") or query.get("key", "")
            row = {"path": scope["path"], "key": key, "headers": headers, "query": query}
            with Path(LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
            rest = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            scope = {**scope, "headers": [*rest, (b"authorization", f"Bearer {key}".encode())] if key else rest}
        await self._app(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(Keys(server.streamable_http_app()), host="127.0.0.1", port=int(PORT), log_level="warning")
