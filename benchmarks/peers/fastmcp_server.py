"""FastMCP's server with the tools of the benchmark, as its documentation starts it.

Arguments: the port, the number of tools beside `echo` and `moment`, and `stateless` for a server without sessions.
"""

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


def main(port: str, tools: str = "0", *options: str) -> None:
    """Serve until SIGTERM."""
    for number in range(int(tools)):
        server.tool(echo, name=f"tool_{number}")
    server.run(
        "http",
        host="127.0.0.1",
        port=int(port),
        path="/mcp",
        show_banner=False,
        log_level="warning",
        stateless_http="stateless" in options,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
