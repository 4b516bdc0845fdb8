"""Passwords: Argon2id hashes, and which passwords are accepted.

Sources: RFC 9106, section 4 (Argon2id parameters); NIST SP 800-63B-4, section 3.1.1 (length, no rules of composition).
"""

from __future__ import annotations

import threading
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from patchbay.errors import InvalidParams

MIN_PASSWORD_CHARACTERS, MAX_PASSWORD_CHARACTERS = 12, 256

MAX_HASHES_AT_ONCE = 2
"""Hashes that are computed at once in one worker. Each takes 64 MiB."""


class Passwords:
    """Hashes passwords and compares them. Safe to use from many threads.

    The default parameters are those for servers with little memory (RFC 9106, section 4, second choice).
    """

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._slots = threading.BoundedSemaphore(MAX_HASHES_AT_ONCE)
        self._unknown = ""
        self._lock = threading.Lock()

    def hash(self, password: str, name: str) -> str:
        """Return the hash of a new password of the person `name`. Raises InvalidParams for a weak password."""
        text = _normalized(password)
        if not MIN_PASSWORD_CHARACTERS <= len(text) <= MAX_PASSWORD_CHARACTERS:
            raise InvalidParams(
                f"the password has {len(text)} characters; expected {MIN_PASSWORD_CHARACTERS} to"
                f" {MAX_PASSWORD_CHARACTERS}"
            )
        if len(set(text)) < 4 or text.casefold() in (name, name * 2):
            raise InvalidParams("the password is easy to guess: choose another one, such as a sentence")
        with self._slots:
            return self._hasher.hash(text)

    def fits(self, password: str, known: str) -> bool:
        """Whether a password has this hash. An empty hash takes the same time and never fits."""
        text = _normalized(password[: 2 * MAX_PASSWORD_CHARACTERS])
        try:
            with self._slots:
                self._hasher.verify(known or self._unknown_hash(), text)
        except (VerificationError, InvalidHashError):
            return False
        return bool(known)

    def is_outdated(self, known: str) -> bool:
        """Whether a hash was made with weaker parameters than a new one."""
        return self._hasher.check_needs_rehash(known)

    def _unknown_hash(self) -> str:
        """The hash to compare with where there is no account, so that the time does not show that."""
        with self._lock:
            self._unknown = self._unknown or self._hasher.hash("no account")
            return self._unknown


def _normalized(password: str) -> str:
    return unicodedata.normalize("NFKC", password)
