"""Answers for programs over plain HTTP: contents, tools, metrics and health."""
