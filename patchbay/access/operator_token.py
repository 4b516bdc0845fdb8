"""The operator's token: made at the first start, kept for the hub's own user, checked by its hash.

Two files in the data folder, both readable only by their owner: `operator` holds the hash, which decides;
`operator.token` holds the token itself, so that commands of the same user can read it. Without the second file the
token is still valid. The token has 256 random bits, so a plain SHA-256 is enough. There is no default token.
"""

from __future__ import annotations

import hmac
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from patchbay.access.hub_key import write_secret_once
from patchbay.errors import ConfigError

HASH_FILE = "operator"
"""The file in the data folder that holds the hash."""

TOKEN_FILE = "operator.token"
"""The file in the data folder that holds the token."""

ENDED_FILE = "operator.ended"
"""The file in the data folder that holds the generations of ended tokens, one a line."""

MAX_ENDED = 1000
"""Maximum number of ended tokens that are remembered; the oldest go first."""

PREFIX = "patchbay_"
"""The first characters of a token. They identify a leaked token as one of Patchbay."""

_HASH = re.compile(r"[0-9a-f]{64}")


class OperatorToken:
    """The token of one hub. `folder` is its data folder; None keeps the token in this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._token = ""

    def hash(self) -> str | None:
        """Return the hash (hexadecimal); None before the first token. Each call reads the file, so a new token works at
        once.

        Raises ConfigError for a file without a hash.
        """
        if self._folder is None:
            return _hash_token(self._token) if self._token else None
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
        """Return an identifier of the present token for sessions: a new token ends the sessions of the old one."""
        return _name_generation(self.hash())

    def ended_generations(self) -> list[str]:
        """Return the identifiers of the tokens that `renew` has ended, oldest first."""
        if self._folder is None:
            return []
        try:
            return (self._folder / ENDED_FILE).read_text().split()
        except (OSError, UnicodeDecodeError):
            return []

    def ensure(self) -> None:
        """Make a token if the hub has none. Of several processes that try at once, one makes it."""
        if self.hash() is not None:
            return
        token = _make_token()
        if self._folder is None:
            self._token = token
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if write_secret_once(self._folder / HASH_FILE, _hash_token(token)):
            self._replace(TOKEN_FILE, token)

    def renew(self) -> str:
        """Make a new token, return it, and end the sessions of the old token."""
        token = _make_token()
        if self._folder is None:
            self._token = token
            return token
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(ConfigError):  # a damaged file names no token
            ended = [*self.ended_generations(), self.generation()][-MAX_ENDED:]
            self._replace(ENDED_FILE, "\n".join(ended))
        self._replace(HASH_FILE, _hash_token(token))
        self._replace(TOKEN_FILE, token)
        return token

    def read_stored(self) -> str | None:
        """Return the token itself from the data folder; None if the folder does not hold the present token."""
        if self._folder is None:
            return self._token or None
        try:
            token = (self._folder / TOKEN_FILE).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return token if self.fits(token) else None

    def fits(self, token: str) -> bool:
        """Whether this is the present token, compared in constant time. Raises ConfigError for a damaged file."""
        return bool(self.find_generation(token))

    def find_generation(self, token: str) -> str:
        """Return the identifier of a token that is the present one, else an empty text. Raises ConfigError."""
        known = self.hash()
        is_right = known is not None and hmac.compare_digest(_hash_token(token), known)
        return _name_generation(known) if is_right else ""

    def _replace(self, name: str, text: str) -> None:
        """Replace a file atomically, so that a reader never sees a part of it."""
        assert self._folder is not None
        path = self._folder / name
        fresh = path.with_name(f"{name}.{secrets.token_hex(8)}")
        write_secret_once(fresh, text)
        fresh.replace(path)


def _name_generation(known: str | None) -> str:
    return sha256(f"generation {known}".encode()).hexdigest()[:32]


def _make_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _hash_token(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
