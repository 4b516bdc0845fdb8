"""Patterns of entries of servers, as grants and toolsets write them, and the names and URIs that they cover."""
