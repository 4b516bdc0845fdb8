"""Contracts: the tools that a profile, a mount or a call expects of a server, compared with those that it has."""
