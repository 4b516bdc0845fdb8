"""Kinds of servers: one folder holds everything about one kind, from the bytes of a definition to events."""
