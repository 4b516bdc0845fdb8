"""Addresses of servers and services: parsed and resolved to a target that a connection can be made to."""
