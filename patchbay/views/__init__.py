"""Views: pure functions from the events of an activation, and from texts, to the form that a reader gets."""
