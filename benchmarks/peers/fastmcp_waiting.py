"""FastMCP's code mode over two tools, one of which asks the person before it works.

Arguments: the port, and the folder in which each call of a tool is written down.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

OPTIONS: dict[str, Any] = {"host": "127.0.0.1", "path": "/mcp", "show_banner": False, "log_level": "warning"}


def make_server(folder: Path) -> FastMCP:
    """Return the server; its tools write into files of the folder."""
    server = FastMCP("issues")

    @server.tool
    def find(count: int) -> list[int]:
        """Find open issues."""
        with (folder / "found").open("a") as file:
            file.write("found ")
        return list(range(1, count + 1))

    @server.tool
    async def close(number: int, context: Context) -> str:
        """Close an issue, once the person agrees."""
        answer = await context.elicit(f"Close issue {number}?", response_type=bool)
        if answer.action != "accept" or not answer.data:
            raise RuntimeError("the person refused")
        with (folder / "closed").open("a") as file:
            file.write(f"{number} ")
        return f"closed {number}"

    server.add_transform(CodeMode())
    return server


if __name__ == "__main__":
    make_server(Path(sys.argv[2])).run(transport="http", port=int(sys.argv[1]), **OPTIONS)
