"""Finds the place that a tool of a server was not allowed to change or read, in the records of its failed calls.

The message of such a call suggests the line of the configuration (`processes/confinement/denials.py`). A denial is past
when the place is allowed now, or when a later call of the same tool worked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.activity.records import Filter, Record, recent
from patchbay.processes.confinement.denials import READS, WRITES, find_suggestions
from patchbay.store import Journal

DAYS = 7
"""Days for which a failed call counts."""

LOOKED_AT = 20
"""Failed calls that are looked at, the newest ones."""


@dataclass(frozen=True, slots=True)
class DeniedFolder:
    """A folder or file that a tool was not allowed to use, and the id of the record of that call.

    `field` of the configuration allows it: `writes` to change it, or `reads`.
    """

    folder: str
    tool: str
    record: str
    field: str = WRITES

    @property
    def verb(self) -> str:
        """What was refused: `change` or `read`."""
        return "read" if self.field == READS else "change"


def find_denied_folder(
    journal: Journal,
    server: str,
    config: Mapping[str, Any],
    is_offered: Callable[[str], bool] = lambda folder: True,
) -> DeniedFolder | None:
    """Return the newest denied place of a server that is not allowed meanwhile, and whose tool did not work since.

    `config` is the configuration of the server, whose `writes` and `reads` allow places and what is below them.
    `is_offered` says whether a place may be offered: the text of a result is that of the server. Finds nothing where
    the setting `activity_contents` does not keep the contents of calls.
    """
    fields = (WRITES, READS) if "address" in config else (WRITES,)
    wanted = Filter(server=server, outcome="tool_error", since=time.time() - DAYS * 86_400)
    for record in recent(journal, wanted, LOOKED_AT).records:
        suggested = [(field, each) for field, each in find_suggestions(_text_of(record.answer)) if field in fields]
        denied = [(field, each) for field, each in suggested if not _is_allowed(field, each, config)]
        denied = [(field, each) for field, each in denied if is_offered(each)]
        if denied and not _worked_since(journal, record):
            field, folder = denied[0]
            return DeniedFolder(folder, record.name, record.id, field)
    return None


def _worked_since(journal: Journal, failed: Record) -> bool:
    """Whether a call of the same tool began after this one and worked."""
    wanted = Filter(server=failed.server, tool=failed.name, outcome="ok", since=failed.at)
    return any(record.at > failed.at for record in recent(journal, wanted, 1, contents=False).records)


def _is_allowed(field: str, folder: str, config: Mapping[str, Any]) -> bool:
    """Whether a place is an allowed one, or lies below one; both may begin with `~`. `writes` allow reading too."""
    place = _expand(folder)
    allowed = [*config.get(WRITES, ()), *(config.get(READS, ()) if field == READS else ())]
    return any(place.is_relative_to(_expand(each)) for each in allowed)


def _expand(folder: str) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError:  # it begins with ~ and the name of a user that does not exist
        return Path(folder)


def _text_of(answer: Any) -> str:
    """Return the text of a result."""
    content = answer.get("content") if isinstance(answer, dict) else None
    items = content if isinstance(content, list) else []
    return "\n".join(str(item.get("text", "")) for item in items if isinstance(item, dict))
