"""Checks the paths of documents: relative, with `/`, of plain names, and valid on every system.

The file system never sees a refused path. Names with a different meaning on some system (`..`, drive letters, `CON`, a
trailing dot, percent-encoding, look-alikes of `/`) are refused on all systems. A file that a scan of the folder found
has a name already; `why_not_served` refuses only those that mislead a reader or leave the folder.
Sources: https://learn.microsoft.com/windows/win32/fileio/naming-a-file; https://www.unicode.org/reports/tr36/.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote

from patchbay.documents.errors import BadPath

MAX_NAME_BYTES = 200
"""Limit on a name; file systems allow 255 bytes, and a temporary file needs some of them."""

MAX_PATH_BYTES = 1000
"""Limit on a path."""

MAX_FOLDER_DEPTH = 16
"""Limit on the names in a path."""

MAX_SHOWN_CHARACTERS = 120
"""Limit on the characters of a wrong path in a message."""

_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])(?:\..*)?", re.I
)
_FORBIDDEN = re.compile(r'[\\:*?"<>|]')
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_HIDING = {"Cc", "Cf", "Zl", "Zp"}
_JOINING = re.compile("[\u200c\u200d\U000e0020-\U000e007f]")
"""Invisible characters of ordinary names: joiners in emoji and in several scripts, and the letters of some flags."""


def document_path(path: str, endings: tuple[str, ...] = (".md",)) -> tuple[str, ...]:
    """Return the names in the path of a document, which ends in one of these endings. Raises BadPath."""
    parts = folder_path(path)
    if not parts[-1].endswith(endings) or parts[-1] in endings:
        raise BadPath(f"{_quote(path)}: expected a path that ends in {' or '.join(endings)}")
    return parts


def why_not_served(path: str) -> str | None:
    """Return the reason why a file that exists in the folder is not a document, or None."""
    if len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return f"its path has more than {MAX_PATH_BYTES} bytes"
    parts = path.split("/")
    if len(parts) > MAX_FOLDER_DEPTH:
        return f"it is inside more than {MAX_FOLDER_DEPTH - 1} folders"
    return next(filter(None, map(_why_not_served, parts)), None)


@lru_cache(maxsize=4096)
def _why_not_served(part: str) -> str | None:
    if not part or part.startswith("."):
        return "a name in its path begins with a dot" if part else "a name in its path is empty"
    if any(unicodedata.category(one) == "Cs" for one in part):
        return "its name is not UTF-8 text"
    hidden = next((one for one in _JOINING.sub("", part) if unicodedata.category(one) in _HIDING), None)
    if hidden is not None:
        return f"its name contains the control or invisible character U+{ord(hidden):04X}"
    plain = unicodedata.normalize("NFKC", unquote(unquote(part)))
    if "\\" in plain or re.search(r"(?:^|/)\.{1,2}(?:/|$)", plain) or "\0" in plain:
        return "a program may read its name as a path to another folder"
    return None


def folder_path(path: str) -> tuple[str, ...]:
    """Return the names in a path. Raises BadPath."""
    if not path:
        raise BadPath("expected a path, not an empty text")
    if "\0" in path:
        raise BadPath(f"{_quote(path)}: expected a path without NUL characters")
    if path.startswith("/"):
        raise BadPath(f"{_quote(path)}: expected a relative path, one that does not begin with /")
    if len(path) > MAX_PATH_BYTES or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise BadPath(f"{_quote(path)}: expected a path of at most {MAX_PATH_BYTES} bytes")
    parts = tuple(path.split("/"))
    if len(parts) > MAX_FOLDER_DEPTH:
        raise BadPath(f"{_quote(path)}: expected at most {MAX_FOLDER_DEPTH} names in a path")
    for part in parts:
        _check(part, path)
    return parts


def name(text: str, what: str) -> str:
    """Check one name, such as a project; `what` is the word for it in messages. Raises BadPath."""
    if "/" in text:
        raise BadPath(f"{what} {_quote(text)}: expected a single name, without /")
    try:
        return folder_path(text)[0]
    except BadPath as problem:
        raise BadPath(f"{what}: {problem.message}") from problem


def is_portable(path: str) -> bool:
    """Whether a path is valid on every system; only a scan of the folder finds a document with another path."""
    try:
        folder_path(path)
    except BadPath:
        return False
    return True


def find_equal(path: str, known: Iterable[str]) -> str | None:
    """Return the known path that differs from `path` only by its Unicode normalization, or None."""
    if path.isascii():
        return None
    wanted = unicodedata.normalize("NFC", path)
    return next((each for each in known if unicodedata.normalize("NFC", each) == wanted), None)


def printable(path: str) -> str:
    """Return a path of the disk as a text, with an escape for each byte that is not UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()


def _check(part: str, path: str) -> None:
    """Raise BadPath for an invalid name."""
    reason = _find_problem(part)
    if reason:
        raise BadPath(f"{_quote(path)}: {reason}")


@lru_cache(maxsize=4096)
def _find_problem(part: str) -> str | None:
    if not part:
        return "expected a name before, between and after the / of a path"
    if part in (".", ".."):
        return f"expected names of files and folders, not {part!r}"
    if part.startswith("."):
        return "expected names that do not begin with a dot"
    if found := _FORBIDDEN.search(part):
        return f"expected names without {found[0]!r}"
    if _ENCODED.search(part):
        return "expected plain text; found a percent-encoded character"
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
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"expected names of at most {MAX_NAME_BYTES} bytes"
    return None


def _quote(path: str) -> str:
    return repr(path if len(path) <= MAX_SHOWN_CHARACTERS else path[: MAX_SHOWN_CHARACTERS - 1] + "…")


def uri_of(server: str, path: str) -> str:
    """Return the URI of a document of a server for documents."""
    return f"docs://{quote(server, safe='')}/{quote(path, safe='/')}"
