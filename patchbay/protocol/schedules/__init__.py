"""Schedules: tools that the hub calls by itself, at most one hub of all on a store at each time."""
