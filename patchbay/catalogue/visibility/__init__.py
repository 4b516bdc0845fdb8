"""The catalogue as one caller may see it: without the entries that the caller may not use."""
