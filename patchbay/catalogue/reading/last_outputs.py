"""The last output of a tool, where a resource shows it.

Rules: it is kept in the journal, for a day, so that the past of a busy tool does not fill the store for ever.
Sources: REQUIREMENTS V-C10, VWR-17; DESIGN section 5.
"""

from __future__ import annotations

from patchbay.store import Store
from patchbay.topics import LAST_OUTPUTS

KEEP = 24 * 60 * 60.0
"""How long an output is kept, in seconds."""


def keep_output(store: Store, server: str, tool: str, output: bytes) -> None:
    """Keep what a tool gave last."""
    store.journal.append(_topic(server, tool), output, KEEP)


def last_output(store: Store, server: str, tool: str) -> bytes | None:
    """What a tool gave last; None when it gave nothing within a day."""
    topic = _topic(server, tool)
    found = store.journal.read(topic, store.journal.last(topic) - 1, 1)
    return found[0].data if found else None


def _topic(server: str, tool: str) -> str:
    return f"{LAST_OUTPUTS}{server}/{tool}"
