"""A program that serves MCP with the key in its variable SERVICE_KEY, which it never prints.

`whoami` names whom the key stands for (`key-of-NAME-...`).
"""

from __future__ import annotations

import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("keyed program")


@server.tool()
def whoami() -> str:
    """Name whom the key stands for."""
    return os.environ.get("SERVICE_KEY", "--no key").split("-")[2]


if __name__ == "__main__":
    server.run()
