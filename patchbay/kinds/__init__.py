"""Kinds of servers: each folder contains one kind, from the bytes of a definition to events."""
