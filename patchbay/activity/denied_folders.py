"""Finds the folder that a tool of a server was not allowed to change, in the records of its failed calls.

The message of such a call suggests the line of the configuration (`processes/confinement/denials.py`).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from patchbay.activity.records import Filter, recent
from patchbay.processes.confinement.denials import find_suggestions
from patchbay.store import Journal

DAYS = 7
"""Days for which a failed call counts."""

LOOKED_AT = 20
"""Failed calls that are looked at, the newest ones."""


@dataclass(frozen=True, slots=True)
class DeniedFolder:
    """A folder that a tool was not allowed to change, and the id of the record of that call."""

    folder: str
    tool: str
    record: str


def find_denied_folder(journal: Journal, server: str, allowed: Collection[str]) -> DeniedFolder | None:
    """Return the newest denied folder of a server that is not `allowed` meanwhile.

    Finds nothing where the setting `activity_contents` does not keep the contents of calls.
    """
    wanted = Filter(server=server, outcome="tool_error", since=time.time() - DAYS * 86_400)
    for record in recent(journal, wanted, LOOKED_AT).records:
        for folder in find_suggestions(_text_of(record.answer)):
            if folder not in allowed:
                return DeniedFolder(folder, record.name, record.id)
    return None


def _text_of(answer: Any) -> str:
    """Return the text of a result."""
    content = answer.get("content") if isinstance(answer, dict) else None
    items = content if isinstance(content, list) else []
    return "\n".join(str(item.get("text", "")) for item in items if isinstance(item, dict))
