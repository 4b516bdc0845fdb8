"""Runs that wait for a person: stored and sealed, without a thread or process, until one process goes on with them."""
