"""Servers from registries: the official registry of MCP servers, and packages of PyPI and npm by their names."""
