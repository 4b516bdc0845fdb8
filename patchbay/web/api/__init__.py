"""Answers for programs over plain HTTP: contents, uploads, tools, metrics, health and the registry of the hub."""
