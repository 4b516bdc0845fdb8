"""Servers that are programs: start one with its environment, speak over its standard streams, end it."""
