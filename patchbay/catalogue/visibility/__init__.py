"""The catalogue as one caller may see it: what the caller may not use is not there."""
