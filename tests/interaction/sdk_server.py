"""A server made with the official Python SDK that offers a part of what `everything` does, under the same names.

Run as a program: `python sdk_server.py PORT`. Tests compare its answers with those of the hub.
"""

from __future__ import annotations

import json
import sys

import mcp_types
from mcp.server.mcpserver import MCPServer

server = MCPServer("everything")


@server.tool()
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool()
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool()
def greet(name: str) -> str:
    """Greet someone, which takes no time."""
    return f"Hello, {name}!"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:
    """Data made out of the number in the address."""
    return json.dumps({"id": id, "templateTest": True})


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments filled in."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
    argument: mcp_types.CompletionArgument,
    context: mcp_types.CompletionContext | None,
) -> mcp_types.Completion | None:
    known = ["paris", "party", "test", "testing"]
    return mcp_types.Completion(values=[value for value in known if value.startswith(argument.value)])


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
