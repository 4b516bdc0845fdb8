"""Requests over HTTP, whichever web server took them: head, sender and body, and the checks that all of them pass."""
