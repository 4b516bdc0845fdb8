"""A room as a server: the tools that its members announce and mount, called through the room."""
