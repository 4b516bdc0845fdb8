"""The errors of a library; their messages are for the caller."""

from __future__ import annotations

from patchbay.errors import ToolFailed, WrongArguments


class BadPath(WrongArguments):
    """An invalid path of a document."""


class NoDocument(ToolFailed):
    """There is no document at this path."""


class DocumentExists(ToolFailed):
    """There is a document at this path already, or at a path that differs only by case."""


class Overwritten(ToolFailed):
    """The document is no longer the version that the change expects."""


class Unreadable(ToolFailed):
    """The document cannot be read or written; the message has the reason of the file system."""
