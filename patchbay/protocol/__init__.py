"""The Model Context Protocol in its five revisions, free of any transport."""
