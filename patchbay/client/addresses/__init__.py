"""Addresses: one string that says how a server is reached and what to do there."""
