"""Ways in: HTTP, pages."""
