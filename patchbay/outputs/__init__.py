"""What a function returned: converted to events, with its redirects read or linked."""
