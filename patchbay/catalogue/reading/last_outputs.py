"""The last output of a tool, for resources that show it.

It is stored in the journal for a day, so that a busy tool does not fill the store.
"""

from __future__ import annotations

from patchbay.store import Store
from patchbay.topics import LAST_OUTPUTS

KEEP_SECONDS = 24 * 60 * 60.0
"""Seconds that an output is stored."""


def store_output(store: Store, server: str, tool: str, output: bytes) -> None:
    """Store the last output of a tool."""
    store.journal.append(_topic(server, tool), output, KEEP_SECONDS)


def last_output(store: Store, server: str, tool: str) -> bytes | None:
    """Return the last output of a tool; None when it gave none within a day."""
    topic = _topic(server, tool)
    found = store.journal.read(topic, store.journal.last(topic) - 1, 1)
    return found[0].data if found else None


def _topic(server: str, tool: str) -> str:
    return f"{LAST_OUTPUTS}{server}/{tool}"
