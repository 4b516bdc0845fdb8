"""The operator's token: made once, shown once, kept as a hash that only the hub's owner can read.

It is 256 random bits, so a plain SHA-256 is enough: there is nothing to guess. There is no default (THREATS 0.3).
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256
from pathlib import Path

from patchbay.errors import ConfigError
from patchbay.protocol.keys import keep_once

FILE = "operator"
"""The file in the data folder that holds the hash."""

PREFIX = "patchbay_"
"""How a token begins, so that whoever finds one knows what it opens."""

_HASH = re.compile(r"[0-9a-f]{64}")


class OperatorToken:
    """The token of one hub. `folder` is its data folder; None keeps the hash in this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._hash = ""

    def hash(self) -> str | None:
        """The hash (hexadecimal), read anew each time, so that a new token counts at once; None where none was made.

        Raises ConfigError when the file holds something else.
        """
        if self._path is None:
            return self._hash or None
        try:
            text = self._path.read_text().strip()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise ConfigError(str(self._path), "", f"expected a file that can be read ({problem})") from problem
        if not _HASH.fullmatch(text):
            raise ConfigError(str(self._path), "", "expected the hash of a token, 64 hexadecimal digits")
        return text

    def first(self) -> str | None:
        """Make a token where there is none, and answer it; None where there was one, which nobody can show again."""
        if self.hash() is not None:
            return None
        token, digest = _made()
        if self._path is None:
            self._hash = digest
            return token
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return token if keep_once(self._path, digest) else None

    def renew(self) -> str:
        """Make a new token in place of the old one, whose sessions end with it."""
        token, digest = _made()
        if self._path is None:
            self._hash = digest
            return token
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{FILE}.{secrets.token_hex(8)}")
        keep_once(fresh, digest)
        fresh.replace(self._path)
        return token

    def fits(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        known = self.hash()
        return known is not None and hmac.compare_digest(_hashed(token), known)


def _made() -> tuple[str, str]:
    token = PREFIX + secrets.token_urlsafe(32)
    return token, _hashed(token)


def _hashed(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
