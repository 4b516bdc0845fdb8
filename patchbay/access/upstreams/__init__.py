"""Tokens of callers at mounted servers: sealed in the store, refreshed by one process at a time, and deleted."""
