"""Profiles: files that say how to reach a server and which contract is expected of it."""
