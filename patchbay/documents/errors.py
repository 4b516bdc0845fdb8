"""What can go wrong with a document, each as a sentence for the caller."""

from __future__ import annotations

from patchbay.errors import ToolFailed, WrongArguments


class BadPath(WrongArguments):
    """A path that no document can have."""


class NoDocument(ToolFailed):
    """There is no document at this path."""


class DocumentExists(ToolFailed):
    """There is a document at this path already, or one whose path differs by case alone."""


class Overwritten(ToolFailed):
    """The document is no longer the version that a change was made for."""


class Unreadable(ToolFailed):
    """The document is there and cannot be read, or cannot be written: the file system's own reason."""
