"""A server of the official Python SDK that wants OAuth: it takes the tokens of one issuer, for itself only.

    python guarded_server.py PORT ISSUER KEYS LOG

`KEYS` is the JWK set of the issuer; each request that arrives adds a line of JSON to `LOG`: its path, its
`Authorization`, and the other headers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

PORT, ISSUER, KEYS, LOG = sys.argv[1:]
RESOURCE = f"http://127.0.0.1:{PORT}/mcp"


class Verifier(TokenVerifier):
    """Accepts JWTs of the issuer for this server that have not ended."""

    async def verify_token(self, token: str) -> AccessToken | None:
        keys = KeySet.import_key_set(json.loads(Path(KEYS).read_text("utf-8")))
        try:
            claims = jwt.decode(token, keys, algorithms=["ES256"]).claims
            jwt.JWTClaimsRegistry(iss={"essential": True, "value": ISSUER}, exp={"essential": True}).validate(claims)
        except Exception:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=claims["aud"],
            subject=claims["sub"],
            claims={"iss": claims["iss"]},
        )


server = MCPServer(
    "guarded",
    token_verifier=Verifier(),
    auth=AuthSettings.model_validate(
        {"issuer_url": ISSUER, "resource_server_url": RESOURCE, "required_scopes": ["mcp:use"]}
    ),
)


@server.tool()
def whoami() -> str:
    """Name the subject of the token."""
    token = get_access_token()
    return "no subject" if token is None else str(token.subject)


@server.resource("guarded://diary", name="Diary")
def diary() -> str:
    """A resource of the caller."""
    return whoami()


@server.resource("guarded://note/{id}", name="Note")
def note(id: str) -> str:
    """A note of the caller."""
    return f"note {id} of {whoami()}"


@server.prompt()
def ask() -> str:
    """A prompt for the caller."""
    return f"What does {whoami()} want?"


class Logged:
    """Writes the headers of each request to the log."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            with Path(LOG).open("a", encoding="utf-8") as log:
                row = {"path": scope["path"], "authorization": headers.pop("authorization", ""), "headers": headers}
                log.write(json.dumps(row) + "\n")
        await self._app(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(Logged(server.streamable_http_app()), host="127.0.0.1", port=int(PORT), log_level="warning")
