"""Patchbay: a hub that makes an MCP endpoint out of anything plugged in."""

__version__ = "0.1.0"
