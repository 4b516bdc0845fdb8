"""Read the functions, annotations and docstrings of a Python definition from its syntax tree."""
