"""A program that serves MCP with the key in its variable SERVICE_KEY, which it prints only as `recall`.

`whoami` names whom the key stands for (`key-of-NAME-...`); `remember` writes the key to the home folder, `recall` reads
what is there; `wait` never answers.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("keyed program")


@server.tool()
def whoami() -> str:
    """Name whom the key stands for."""
    return os.environ.get("SERVICE_KEY", "--no key").split("-")[2]


@server.tool()
def remember() -> str:
    """Write the key to the home folder and to that of temporary files; return the home folder."""
    home = Path.home()
    for folder in (home, Path(tempfile.gettempdir())):
        (folder / ".netrc").write_text(os.environ["SERVICE_KEY"], "utf-8")
    return str(home)


@server.tool()
def recall() -> list[str]:
    """Return the keys that can be read in the home folder, that of temporary files and the folders beside them."""
    found = []
    for folder in (Path.home(), Path(tempfile.gettempdir())):
        for one in (*folder.glob(".netrc"), *folder.parent.glob("*/.netrc")):
            with suppress(OSError):
                found.append(one.read_text("utf-8"))
    return found


@server.tool()
async def wait() -> str:
    """Wait until the call is cancelled, or the process ends."""
    await anyio.sleep_forever()
    return "never"


if __name__ == "__main__":
    server.run()
