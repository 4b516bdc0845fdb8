"""A server made with the official Python SDK whose calls wait, without a thread, until they are told to end.

Run as a program: `python waiting_server.py PORT` serves it over HTTP, without a port over standard input and output.
"""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("waiting")
ending = asyncio.Event()
waiting = 0


@server.tool()
async def wait() -> str:
    """Wait until `end` is called."""
    global waiting
    waiting += 1
    try:
        await ending.wait()
    finally:
        waiting -= 1
    return "ended"


@server.tool()
async def count() -> int:
    """Return the number of calls that wait."""
    return waiting


@server.tool()
async def end() -> str:
    """End all calls that wait."""
    ending.set()
    return "all"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
