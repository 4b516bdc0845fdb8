"""FastMCP's code mode over several programs, as its documentation shows it, with one connection to each program.

Arguments: the port, and a JSON object with the programs (`mcpServers`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

OPTIONS: dict[str, Any] = {"host": "127.0.0.1", "path": "/mcp", "show_banner": False, "log_level": "warning"}


async def serve(port: int, programs: str) -> None:
    """Serve until SIGTERM."""
    async with Client(json.loads(programs)) as client:
        server = create_proxy(client)
        server.add_transform(CodeMode())
        await server.run_http_async(port=port, **OPTIONS)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
