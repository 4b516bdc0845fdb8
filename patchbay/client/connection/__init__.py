"""Connections to MCP servers: opening, requests, streams and closing, over HTTP, pipes and in process."""
