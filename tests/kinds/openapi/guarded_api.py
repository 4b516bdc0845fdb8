# /// script
# requires-python = ">=3.11"
# dependencies = ["fastapi>=0.115,<1", "uvicorn>=0.34,<1", "joserfc>=1.0,<2"]
# ///
"""A real API as a program: FastAPI, which takes the tokens of one OpenID issuer, for itself only.

    uv run --script guarded_api.py PORT ISSUER KEYS LOG

Its document names the issuer with a scheme `openIdConnect`. `KEYS` is the JWK set of the issuer; each request adds a
line of JSON to `LOG`: its path and its `Authorization`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response, Security
from fastapi.security import OpenIdConnect
from joserfc import jwt
from joserfc.jwk import KeySet

PORT, ISSUER, KEYS, LOG = sys.argv[1:]
RESOURCE = f"http://127.0.0.1:{PORT}/"

app = FastAPI(title="Diary")
login = OpenIdConnect(openIdConnectUrl=f"{ISSUER}/.well-known/openid-configuration", auto_error=False)


@app.middleware("http")
async def record(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    """Write each request to the log."""
    row = {"path": request.url.path, "authorization": request.headers.get("authorization", "")}
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(row) + "\n")
    return await answer(request)


def subject(request: Request) -> str:
    """The subject of a token of the issuer for this API that has not ended."""
    keys = KeySet.import_key_set(json.loads(Path(KEYS).read_text("utf-8")))
    try:
        claims = jwt.decode(request.headers["authorization"].removeprefix("Bearer "), keys, algorithms=["ES256"]).claims
        jwt.JWTClaimsRegistry(
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": RESOURCE},
            scope={"essential": True, "value": "mcp:use"},
            exp={"essential": True},
        ).validate(claims)
    except Exception as problem:
        raise HTTPException(401, f"the token is not accepted: {type(problem).__name__}") from problem
    return str(claims["sub"])


@app.get("/whoami", operation_id="whoami", dependencies=[Security(login, scopes=["mcp:use"])])
def whoami(request: Request) -> dict[str, str]:
    """Name the subject of the token."""
    return {"subject": subject(request)}


@app.get("/status", operation_id="status")
def status(request: Request) -> dict[str, bool]:
    """Say whether the request had a token."""
    return {"token": "authorization" in request.headers}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(PORT), access_log=False)
