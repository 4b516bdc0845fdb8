"""Links that log a browser in as the operator, once each: `/login?once=...`.

A link holds a random number and the time, signed with the key of the hub. The journal, which all workers share, records
the first use; a second use is refused. A new operator token ends all older links.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from itsdangerous import BadData

from patchbay.access.operator_token import OperatorToken
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.store import Journal
from patchbay.topics import LOGIN_LINKS

LINK_SECONDS = 3600
"""Seconds that a link is valid."""

MAX_LINK_CHARACTERS = 1024


class LoginLinks:
    """The login links of one hub; `key` is its secret key, `now` the clock of its store (a command may have none)."""

    def __init__(self, key: bytes, token: OperatorToken, now: Callable[[], float] = time.time) -> None:
        self._signer = timed_serializer(key, "operator-link", now, SHA256)
        self._token = token

    def make(self) -> str:
        """Make the path of a new link. Raises ConfigError when the file of the token is damaged."""
        return "/login?once=" + self._signer.dumps([secrets.token_hex(16), self._token.generation()])

    def redeem(self, text: str, journal: Journal) -> bool:
        """Use a link; return whether the link is valid and this is its first use."""
        if len(text) > MAX_LINK_CHARACTERS:
            return False
        try:
            nonce, generation = self._signer.loads(text, max_age=LINK_SECONDS)
        except (BadData, ValueError, TypeError):
            return False
        if not hmac.compare_digest(str(generation), self._token.generation()):
            return False
        topic = LOGIN_LINKS + str(nonce)
        own_seq = journal.append(topic, b"used", LINK_SECONDS)
        return journal.read(topic, limit=1)[0].seq == own_seq
