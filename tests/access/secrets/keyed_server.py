"""An MCP server of the official SDK over standard input and output that needs the variable TOKEN.

It shows the hash of its value, never the value. `wait_for` ends when a file exists.
"""

import os
import threading
from hashlib import sha256
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("keyed")


@server.tool()
def digest() -> str:
    """Return the hash of the token."""
    return sha256(os.environ["TOKEN"].encode()).hexdigest()


@server.tool()
def wait_for(file: str) -> str:
    """Wait until the file exists, then return the hash of the token."""
    while not Path(file).exists():
        threading.Event().wait(0.01)
    return digest()


@server.tool()
def repeat(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    server.run()
