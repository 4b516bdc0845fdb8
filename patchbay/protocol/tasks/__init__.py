"""Tasks: calls that continue in the background."""
