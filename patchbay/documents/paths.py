"""Which paths a document may have: relative, with `/`, plain names, and the same everywhere.

A path that is refused here is never shown to the file system. Names that one system reads in another way than the
next (`..`, drive letters, `CON`, a trailing dot, percent-encoding, look-alikes of `/`) are refused on all of them.
Sources: REQUIREMENTS JANE-C5, JANE-15; THREATS (paths); https://learn.microsoft.com/windows/win32/fileio/naming-a-file.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from patchbay.documents.errors import BadPath

LONGEST_NAME = 200
"""Bytes of the longest name; file systems take 255, and a temporary file needs some of them."""

LONGEST_PATH = 1000
"""Bytes of the longest path."""

MAX_FOLDER_DEPTH = 16
"""Folders inside each other."""

SHOWN = 120
"""Characters of a wrong path that a message shows."""

_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])(?:\..*)?", re.I
)
_FORBIDDEN = re.compile(r'[\\:*?"<>|]')
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def document_path(path: str, endings: tuple[str, ...] = (".md",)) -> tuple[str, ...]:
    """The names in the path of a document, the last one with one of these endings. Raises BadPath."""
    parts = folder_path(path)
    if not parts[-1].endswith(endings) or parts[-1] in endings:
        raise BadPath(f"{_shown(path)}: expected a path that ends in {' or '.join(endings)}")
    return parts


def folder_path(path: str) -> tuple[str, ...]:
    """The names in a path. Raises BadPath."""
    if not path:
        raise BadPath("expected a path, not an empty text")
    if "\0" in path:
        raise BadPath(f"{_shown(path)}: expected a path without NUL characters")
    if path.startswith("/"):
        raise BadPath(f"{_shown(path)}: expected a relative path, one that does not begin with /")
    if len(path) > LONGEST_PATH or len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        raise BadPath(f"{_shown(path)}: expected a path of at most {LONGEST_PATH} bytes")
    parts = tuple(path.split("/"))
    if len(parts) > MAX_FOLDER_DEPTH:
        raise BadPath(f"{_shown(path)}: expected at most {MAX_FOLDER_DEPTH} names in a path")
    for part in parts:
        _check(part, path)
    return parts


def name(text: str, what: str) -> str:
    """One name, such as that of a project; `what` is what messages call it. Raises BadPath."""
    if "/" in text:
        raise BadPath(f"{what} {_shown(text)}: expected a single name, without /")
    try:
        return folder_path(text)[0]
    except BadPath as problem:
        raise BadPath(f"{what}: {problem.message}") from problem


def is_path(path: str) -> bool:
    """Whether a path is one that a document or folder may have."""
    try:
        folder_path(path)
    except BadPath:
        return False
    return True


def _check(part: str, path: str) -> None:
    """Raises BadPath for a name that no file here may have."""
    reason = _reason(part)
    if reason:
        raise BadPath(f"{_shown(path)}: {reason}")


@lru_cache(maxsize=4096)
def _reason(part: str) -> str | None:
    if not part:
        return "expected a name between two / and at the end"
    if part in (".", ".."):
        return f"expected names of files and folders, not {part!r}"
    if part.startswith("."):
        return "expected names that do not begin with a dot"
    if found := _FORBIDDEN.search(part):
        return f"expected names without {found[0]!r}"
    if _ENCODED.search(part):
        return "expected plain text; there is a percent-encoded character"
    if any(unicodedata.category(one) in _UNSEEN for one in part):
        return "expected names without control or invisible characters"
    if part[-1] in ". " or part[0] == " ":
        return "expected names that neither begin nor end with a blank, nor end with a dot"
    if _RESERVED.fullmatch(part):
        return f"{part!r} is the name of a device on Windows"
    if unicodedata.normalize("NFC", part) != part:
        return "expected Unicode in its composed form (NFC)"
    if re.search(r"[/\\:]|^\.{1,2}$", unicodedata.normalize("NFKC", part)):
        return "expected no look-alikes of / \\ : or .."
    if len(part.encode()) > LONGEST_NAME:
        return f"expected names of at most {LONGEST_NAME} bytes"
    return None


def _shown(path: str) -> str:
    return repr(path if len(path) <= SHOWN else path[: SHOWN - 1] + "…")
