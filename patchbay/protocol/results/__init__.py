"""Results of calls that are too large for one message."""
