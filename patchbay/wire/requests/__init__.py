"""Requests over HTTP: the head, the sender and the body of one, and the checks that all of them pass."""
