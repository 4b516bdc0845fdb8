"""An HTTP API whose requests wait, without a thread, until they are told to end: `waiting_server.py` without MCP.

Run as a program: `python waiting_api.py PORT`; its description is at `/openapi.json`.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

ending = asyncio.Event()
waiting = 0


async def wait(request: Request) -> PlainTextResponse:
    global waiting
    waiting += 1
    await ending.wait()
    waiting -= 1
    return PlainTextResponse("ended")


async def count(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(waiting))


async def end(request: Request) -> PlainTextResponse:
    ending.set()
    return PlainTextResponse("all")


OPERATIONS = (wait, count, end)


async def describe(request: Request) -> JSONResponse:
    text = {"description": "a text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    paths = {
        f"/{operation.__name__}": {"get": {"operationId": operation.__name__, "responses": {"200": text}}}
        for operation in OPERATIONS
    }
    return JSONResponse({"openapi": "3.1.0", "info": {"title": "Waiting", "version": "1"}, "paths": paths})


routes = [Route(f"/{operation.__name__}", operation) for operation in OPERATIONS]
app = Starlette(routes=[*routes, Route("/openapi.json", describe)])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
