"""An MCP server on a laptop, made with the official Python SDK: its argument is a folder for the marks of its tools."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("laptop")
marks = Path(sys.argv[1])


@server.tool()
def read_note(name: str, size: int = 1) -> str:
    """Read a note."""
    return f"the note {name}" * size


@server.resource("note://plans", mime_type="text/plain")
def plans() -> str:
    """The plans."""
    return "move, then have a party"


@server.prompt()
def review(name: str) -> str:
    """Ask for a review of a note."""
    return f"Review the note {name}."


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, with progress."""
    for number in range(to):
        await context.report_progress(number + 1, to, f"at {number + 1}")
        await asyncio.sleep(0.05)
    return f"counted to {to}"


@server.tool()
async def wait(mark: str) -> str:
    """Wait until the call is cancelled, or the file <mark>.go is there."""
    (marks / f"{mark}.begun").touch()
    try:
        while not (marks / f"{mark}.go").exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        (marks / f"{mark}.cancelled").touch()
        raise
    return f"waited for {mark}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise RuntimeError("this note cannot be read")


@server.tool()
async def learn(context: Context) -> str:
    """Get one more tool, and tell the client so."""
    server.add_tool(lambda: "new", name="learned", description="A tool that came later.")
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "learned"


if __name__ == "__main__":
    server.run("stdio")
