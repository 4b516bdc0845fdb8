"""Threads that run calls: they can be interrupted and left behind, and servers share them."""
