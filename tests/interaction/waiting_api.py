"""An HTTP API whose requests wait, without a thread, until they are told to end: `waiting_server.py` without MCP.

Run as a program: `python waiting_api.py PORT`; its description is at `/openapi.json`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvicorn

ending = asyncio.Event()
waiting = 0


async def wait() -> str:
    global waiting
    waiting += 1
    await ending.wait()
    waiting -= 1
    return "ended"


async def count() -> str:
    return str(waiting)


async def end() -> str:
    ending.set()
    return "all"


OPERATIONS = {operation.__name__: operation for operation in (wait, count, end)}


def describe() -> str:
    """Return the OpenAPI document."""
    text = {"description": "a text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    paths = {f"/{name}": {"get": {"operationId": name, "responses": {"200": text}}} for name in OPERATIONS}
    return json.dumps({"openapi": "3.1.0", "info": {"title": "Waiting", "version": "1"}, "paths": paths})


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer a request (ASGI)."""
    if scope["type"] != "http":
        return
    operation = OPERATIONS.get(scope["path"].removeprefix("/"))
    body, kind = (describe(), "application/json") if operation is None else (await operation(), "text/plain")
    head = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body.encode()})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")
