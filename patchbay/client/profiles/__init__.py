"""Profiles: files that describe a server, how to connect to it and the contract expected of it."""
