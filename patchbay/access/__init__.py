"""The identity of callers, and the hub's secrets that prove it."""
