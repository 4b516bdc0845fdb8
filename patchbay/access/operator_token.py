"""The operator's token: made at the first start, kept for the hub's own user, checked by its hash.

Two files in the data folder, both readable by their owner alone: `operator` holds the hash, which decides;
`operator.token` holds the token itself, so that commands of the same user can read it. Without the second file the
token still counts. The token is 256 random bits, so a plain SHA-256 is enough: there is nothing to guess. There is no
default (THREATS 0.3).
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256
from pathlib import Path

from patchbay.access.hub_key import keep_once
from patchbay.errors import ConfigError

HASH_FILE = "operator"
"""The file in the data folder that holds the hash."""

TOKEN_FILE = "operator.token"
"""The file in the data folder that holds the token."""

PREFIX = "patchbay_"
"""How a token begins, so that a reader who finds one knows what it opens."""

_HASH = re.compile(r"[0-9a-f]{64}")


class OperatorToken:
    """The token of one hub. `folder` is its data folder; None keeps the token in this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._token = ""

    def hash(self) -> str | None:
        """The hash (hexadecimal), read anew each time, so that a new token counts at once; None before the first one.

        Raises ConfigError when the file holds something else.
        """
        if self._folder is None:
            return _hashed(self._token) if self._token else None
        path = self._folder / HASH_FILE
        try:
            text = path.read_text().strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigError(str(path), "", f"expected a file that can be read ({problem})") from problem
        if not _HASH.fullmatch(text):
            raise ConfigError(
                str(path),
                "",
                "expected the hash of a token, 64 hexadecimal digits: make a new token with `patchbay token`",
            )
        return text

    def generation(self) -> str:
        """Stands for the present token in a session, so that a new token ends the sessions of the old one."""
        return sha256(f"generation {self.hash()}".encode()).hexdigest()[:32]

    def ensure(self) -> None:
        """Make a token where there is none yet. Of several processes that try at once, one makes it."""
        if self.hash() is not None:
            return
        token = _made()
        if self._folder is None:
            self._token = token
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if keep_once(self._folder / HASH_FILE, _hashed(token)):
            self._replace(TOKEN_FILE, token)

    def renew(self) -> str:
        """Make a new token in place of the old one, whose sessions end with it."""
        token = _made()
        if self._folder is None:
            self._token = token
            return token
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._replace(HASH_FILE, _hashed(token))
        self._replace(TOKEN_FILE, token)
        return token

    def kept(self) -> str | None:
        """The token itself, for the owner of the data folder; None where the present one is not kept."""
        if self._folder is None:
            return self._token or None
        try:
            token = (self._folder / TOKEN_FILE).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return token if self.fits(token) else None

    def fits(self, token: str) -> bool:
        """Whether this is the token, compared in constant time. Raises ConfigError for a damaged file."""
        known = self.hash()
        return known is not None and hmac.compare_digest(_hashed(token), known)

    def _replace(self, name: str, text: str) -> None:
        """Write a file as a whole, so that no reader meets half of it."""
        assert self._folder is not None
        path = self._folder / name
        fresh = path.with_name(f"{name}.{secrets.token_hex(8)}")
        keep_once(fresh, text)
        fresh.replace(path)


def _made() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _hashed(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
