"""Links that log a browser in as the operator, once each: `/login?once=...`.

A link carries a random number and the time, signed with the hub's key. The first use is noted in the journal, which
all workers share, so that a second use is refused. A new token ends the links that were made before it.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import Any

from itsdangerous import BadData, URLSafeTimedSerializer

from patchbay.access.operator_token import OperatorToken
from patchbay.store import Journal
from patchbay.topics import LOGIN_LINKS

LINK_SECONDS = 3600
"""Seconds that a link can be used."""

MAX_LINK_CHARACTERS = 1024


SIGNER: dict[str, Any] = {"digest_method": sha256, "key_derivation": "hmac"}
"""How the hub signs what it hands out to its operator."""


class LoginLinks:
    """The links of one hub, whose key is `key`."""

    def __init__(self, key: bytes, token: OperatorToken) -> None:
        self._signer = URLSafeTimedSerializer(key, salt="operator-link", signer_kwargs=SIGNER)
        self._token = token

    def make(self) -> str:
        """The path of a new link. Raises ConfigError when the token's file is damaged."""
        return "/login?once=" + self._signer.dumps([secrets.token_hex(16), self._token.generation()])

    def redeem(self, text: str, journal: Journal) -> bool:
        """Whether this is the first use of a good link; the link is used up then."""
        if len(text) > MAX_LINK_CHARACTERS:
            return False
        try:
            nonce, generation = self._signer.loads(text, max_age=LINK_SECONDS)
        except (BadData, ValueError, TypeError):
            return False
        if not hmac.compare_digest(str(generation), self._token.generation()):
            return False
        topic = LOGIN_LINKS + str(nonce)
        mine = journal.append(topic, b"used", LINK_SECONDS)
        return journal.read(topic, limit=1)[0].seq == mine
