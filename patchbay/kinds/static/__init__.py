"""Servers without code: a JSON document that says all that they list."""
