"""The official Python SDK's server with the tools of the benchmark, as its documentation starts it.

Arguments: the port, the number of tools beside `echo`, and `stateless` for a server without sessions.
"""

from __future__ import annotations

import sys

from mcp.server import MCPServer

server = MCPServer("bench", log_level="WARNING")


@server.tool()
def echo(message: str) -> str:
    """Return the message."""
    return message


def main(port: str, tools: str = "0", *options: str) -> None:
    """Serve until SIGTERM."""
    for number in range(int(tools)):
        server.add_tool(echo, name=f"tool_{number}")
    server.run("streamable-http", host="127.0.0.1", port=int(port), stateless_http="stateless" in options)


if __name__ == "__main__":
    main(*sys.argv[1:])
