"""A full-text index: texts are found by their words, best first."""
