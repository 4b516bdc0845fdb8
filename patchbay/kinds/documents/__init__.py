"""Folders of Markdown documents as servers that only read."""
