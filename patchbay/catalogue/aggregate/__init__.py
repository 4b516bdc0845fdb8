"""All servers as one at /mcp: which servers it has, and the public names of their tools."""
