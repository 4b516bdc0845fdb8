"""Replies over HTTP: their form, their head, and their body, whole or as a stream of frames."""
