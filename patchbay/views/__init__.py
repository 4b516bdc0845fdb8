"""Views: pure functions over the events of an activation."""
