"""The names of credentials, which a principal has in `Principal.credential`, and the note that some have ended.

A name says which credential proved a principal, and is no secret: a kind, a colon, and what identifies one credential
of this kind at all times. A new key of an old name, or a new session of the same person, has another name.
"""

from __future__ import annotations

from patchbay.coordination.records import Write
from patchbay.store import Journal
from patchbay.topics import ACCESS_ENDS

KEY, SESSION, SIGN_IN, OPERATOR, TOKEN = "key", "session", "sign-in", "operator", "token"
"""The kinds: a personal key, a browser session of a person, the sign-in of a client, the operator's token, and a token
of an outside issuer."""

DIGEST_CHARACTERS = 32
"""Characters of the digest of a key that identify it."""

KEPT_SECONDS = 24 * 3600.0
"""Seconds for which the note of an end is kept; processes look for new ones several times a second."""


def name_key(digest: str) -> str:
    """Return the name of a personal key, by its SHA-256 in hexadecimal digits."""
    return f"{KEY}:{digest[:DIGEST_CHARACTERS]}"


def name_session(account: str, session: str) -> str:
    """Return the name of a browser session, by the id of its account and its own id."""
    return f"{SESSION}:{account}.{session}"


def name_sign_in(account: str, family: str) -> str:
    """Return the name of a client's sign-in, by the id of its account and of its family of tokens."""
    return f"{SIGN_IN}:{account}.{family}"


def name_operator(generation: str, nonce: str = "") -> str:
    """Return the name of the operator's token of a generation, or of a session that began with it (`nonce`)."""
    return f"{OPERATOR}:{generation}.{nonce}"


def name_token(until: float, key: str = "") -> str:
    """Return the name of a token for a person of an outside issuer, by the time from which it is refused (Unix time).

    The hub knows nothing else that ends it, except for a token that the hub gave to a client with a personal key:
    then `key` is the SHA-256 of the key, and the token ends with it.
    """
    return f"{TOKEN}:{until!r}" + (f":{key[:DIGEST_CHARACTERS]}" if key else "")


def end_of_token(credential: str) -> float | None:
    """Return the time from which a token of an outside issuer is refused; None for the name of another credential."""
    kind, _, rest = credential.partition(":")
    return float(rest.partition(":")[0]) if kind == TOKEN else None


def key_of_token(credential: str) -> str:
    """Return the first digits of the SHA-256 of the key with which a token ends; empty for every other credential."""
    kind, _, rest = credential.partition(":")
    return rest.partition(":")[2] if kind == TOKEN else ""


def note_of_end(what: str) -> Write:
    """Return the note that credentials have ended, to be written in one transaction with their end.

    `what` says which, for people who read the store.
    """
    return Write(ACCESS_ENDS, what, KEPT_SECONDS)


def note_end(journal: Journal, what: str) -> None:
    """Write the note that credentials have ended, where their end is no record of the journal."""
    journal.append(ACCESS_ENDS, what.encode(), KEPT_SECONDS)
