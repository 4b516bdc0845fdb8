"""Answers for programs over plain HTTP: contents, tools, metrics, health and the OpenAPI document."""
