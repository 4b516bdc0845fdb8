"""The client: how any MCP server is reached."""
