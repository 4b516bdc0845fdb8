"""Addresses of servers and services: parsed, formatted, and resolved to a target that a connection can be made to."""
