"""The client: addresses, profiles and contracts of MCP servers and other services, and connections to them."""
