"""Threads that run calls of Python code, which can be interrupted and left behind."""
