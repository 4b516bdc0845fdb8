"""A program that serves MCP with the key in its variable SERVICE_KEY, which it never prints.

`whoami` names whom the key stands for (`key-of-NAME-...`); `wait` never answers.
"""

from __future__ import annotations

import os

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("keyed program")


@server.tool()
def whoami() -> str:
    """Name whom the key stands for."""
    return os.environ.get("SERVICE_KEY", "--no key").split("-")[2]


@server.tool()
async def wait() -> str:
    """Wait until the call is cancelled, or the process ends."""
    await anyio.sleep_forever()
    return "never"


if __name__ == "__main__":
    server.run()
