"""Regular work on the store, which one process does for all hubs that share it."""
