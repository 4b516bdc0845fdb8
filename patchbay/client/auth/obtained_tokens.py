"""Tokens that an authorization server gives in place of a caller's own, as values.

This module does not load the client that requests them (`token_exchange.py`).
Source: RFC 8693, section 3 (types of tokens).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from patchbay.errors import PatchbayError

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class TokenRefused(PatchbayError):
    """The authorization server gives no token for this caller. The message has the code of its answer."""

    status = 403


@dataclass(frozen=True, slots=True)
class ObtainedToken:
    """A token. `expires` is Unix time in seconds; infinite if the authorization server does not say it."""

    text: str = field(repr=False)
    expires: float
