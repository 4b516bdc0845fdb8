"""Applications that are MCP clients: where each stores its servers, how an entry reads, and exact edits of its file."""
