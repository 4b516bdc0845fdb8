"""Folders of Markdown documents as read-only servers."""
