"""The commands that ask registries: search, add and outdated."""
