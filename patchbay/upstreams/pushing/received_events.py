"""What mounted servers send as events: its form, its limits, and the error for one that sends none."""

from __future__ import annotations

from typing import Any

from patchbay.errors import PatchbayError
from patchbay.occurrences.cursors import MAX_CURSOR_CHARACTERS
from patchbay.occurrences.records import MAX_ID_CHARACTERS

MAX_CURSOR = MAX_CURSOR_CHARACTERS // 2
"""Characters of a cursor of a mounted server; a cursor of the hub holds it."""


class UpstreamEventFailure(PatchbayError):
    """A mounted server refused a poll, or gave no answer to it."""

    status = 502

    def __init__(self, message: str, code: int = -32603, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


def is_event(one: Any) -> bool:
    """Whether a value has the members of an event."""
    return (
        isinstance(one, dict)
        and isinstance(one.get("eventId"), str)
        and 0 < len(one["eventId"]) <= MAX_ID_CHARACTERS
        and isinstance(one.get("timestamp"), str)
        and isinstance(one.get("data"), dict)
    )
