"""Connections to programs that outlive a command: a background process holds each of them until it is idle."""
