"""Tasks: calls that go on in the background."""
