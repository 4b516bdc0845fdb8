"""Deletes the accounts of a principal at mounted servers, without opening them."""

from __future__ import annotations

from hashlib import sha256

from patchbay.store import Journal
from patchbay.topics import UPSTREAM_TOKENS


def forget_principal(journal: Journal, principal: str) -> None:
    """Delete all accounts of a principal that was removed."""
    delete_record(journal, tokens_topic(principal))


def delete_record(journal: Journal, topic: str) -> None:
    """Delete every entry of a topic."""
    journal.remove(topic, journal.last(topic) + 1)


def tokens_topic(principal: str) -> str:
    """The topic of the record of a principal; it does not show its name."""
    return UPSTREAM_TOKENS + sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()
