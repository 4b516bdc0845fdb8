"""Records of calls, counters of calls, and traces."""
