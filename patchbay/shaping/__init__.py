"""Shapes single tools: what callers see of their texts, hints, arguments and results."""
