"""The official Python SDK's server with one tool, as its documentation starts it; the port is the only argument."""

from __future__ import annotations

import sys

from mcp.server import MCPServer

server = MCPServer("bench", log_level="WARNING")


@server.tool()
def echo(message: str) -> str:
    """Return the message."""
    return message


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
