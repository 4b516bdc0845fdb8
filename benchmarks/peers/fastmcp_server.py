"""FastMCP's server with one tool, as its documentation starts it; the port is the only argument."""

from __future__ import annotations

import sys

from fastmcp import FastMCP

server = FastMCP("bench")


@server.tool
def echo(message: str) -> str:
    """Return the message."""
    return message


if __name__ == "__main__":
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False, log_level="warning")
