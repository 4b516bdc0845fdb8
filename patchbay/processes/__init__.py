"""Starts, bounds, confines and ends processes and all that they start."""
