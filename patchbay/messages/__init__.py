"""What the hub knows about a message besides its content: its sender, its session and its revision."""
