"""The MCP servers of a room: announced or mounted, advertised, called; the answers that are given again."""
