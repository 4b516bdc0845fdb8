"""FastMCP's proxy of a server at a URL, as its documentation starts it.

Arguments: the port, the URL, and `shared` for one connection to the server in place of one for each request.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastmcp import Client
from fastmcp.server import create_proxy

OPTIONS: dict[str, Any] = {"host": "127.0.0.1", "path": "/mcp", "show_banner": False, "log_level": "warning"}


async def serve(port: int, url: str, is_shared: bool) -> None:
    """Serve until SIGTERM."""
    if not is_shared:
        await create_proxy(url).run_http_async(port=port, **OPTIONS)
        return
    async with Client(url) as client:
        await create_proxy(client).run_http_async(port=port, **OPTIONS)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], "shared" in sys.argv[3:]))
