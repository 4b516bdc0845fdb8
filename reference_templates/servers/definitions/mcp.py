"""The hub as an MCP server: its servers, their tools, resources and prompts, and the configuration."""

import json
from typing import Any


def list_servers(context) -> list[dict[str, Any]]:
    """List the servers of this hub: name, title, description, kind and endpoint."""
    return _json(context, "server://")


def describe_server(name: str, context) -> dict[str, Any]:
    """Describe one server: its tools with their schemas, its resources and its prompts.

    Args:
        name: The server's name, as `list_servers` gives it.
    """
    return _json(context, f"server://{name}")


def configuration(context) -> dict[str, Any]:
    """Show the variable `mcps`: for each configured server, the CID of its configuration."""
    return _json(context, "variable://mcps")


def _json(context, uri: str) -> Any:
    return json.loads(context.read(uri)["text"])
