"""Faults of a cluster under load: what is wrong, lost, doubled or without an end, and how long until all is normal."""
