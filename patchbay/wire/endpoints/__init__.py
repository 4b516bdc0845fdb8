"""Endpoints over HTTP: MCP in all revisions, the native interface, metadata, and the routes of WebSockets."""
