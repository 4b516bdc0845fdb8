"""The page that inspects any MCP server by its address, and the servers that it has connected to."""
