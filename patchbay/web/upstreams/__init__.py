"""Pages where callers connect their own accounts at mounted servers."""
