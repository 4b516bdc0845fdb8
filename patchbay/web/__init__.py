"""Pages and plain HTTP."""
