"""The commands about the servers of a hub: make, list, show, switch, restart, remove, open, and their logs."""
