"""Secrets that configurations name as `${NAME}`: sealed in the store, or one file each in a folder."""
