"""Connections to MCP servers over HTTP, standard input and output, and in process."""
