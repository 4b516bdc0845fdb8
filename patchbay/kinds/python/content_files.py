"""Contents of arguments as files: a parameter `Path` with the format `cid` gets the path of a file with the content.

    def count(table: Annotated[Path, Field(json_schema_extra={"format": "cid"})]) -> int: ...

The files are in a folder of the call, which ends with it. Their names come from the hub, not from the caller.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchbay.errors import ToolFailed

CONTENT_FORMAT = "cid"
"""The format of a parameter whose value is a content that callers may give by its link."""


class ContentFiles:
    """The files of one call. `close` deletes them."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._count = 0

    def write(self, name: str, value: Any) -> Any:
        """Write the base64 of an argument, or each text in its list, to a file; return the path, or a list of paths.

        None stays None. Raises ToolFailed for a text that is not base64.
        """
        if value is None:
            return None
        if isinstance(value, list):
            return [self.write(name, one) for one in value]
        try:
            data = b64decode(value, validate=True)
        except (TypeError, ValueError) as problem:
            raise ToolFailed(f"argument {name!r}: expected base64, or a cid:// link ({problem})") from problem
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="contents-", ignore_cleanup_errors=True)
        self._count += 1
        path = Path(self._folder.name, f"content-{self._count}")
        path.write_bytes(data)
        return path

    def close(self) -> None:
        """Delete the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
