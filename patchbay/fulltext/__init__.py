"""A full-text index: finds texts by their words, best first."""
