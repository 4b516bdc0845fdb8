"""The Model Context Protocol in its five revisions, without any transport."""
