"""Whether the credential behind a principal is still good, which everything that stays open asks."""
