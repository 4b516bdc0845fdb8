"""FastMCP's server with the tools of the benchmark, as its documentation starts it; the port is the only argument."""

from __future__ import annotations

import asyncio
import sys
import time

from fastmcp import Context, FastMCP

server = FastMCP("bench")


@server.tool
def echo(message: str) -> str:
    """Return the message."""
    return message


@server.tool
async def moment(pause: float, ctx: Context) -> str:
    """Report the time at which that is done, between two pauses of so many seconds."""
    await asyncio.sleep(pause)
    await ctx.report_progress(1, message=repr(time.monotonic()))
    await asyncio.sleep(pause)
    return "done"


if __name__ == "__main__":
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False, log_level="warning")
