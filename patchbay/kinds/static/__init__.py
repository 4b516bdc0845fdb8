"""Servers without code: a JSON document contains everything that they list."""
