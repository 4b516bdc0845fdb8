"""Patchbay: a hub that makes an MCP endpoint out of anything plugged in.

This module exports the contract for authors: a definition imports from `patchbay` and from no module below it.
These names stay importable, because the hub runs a pinned definition exactly as it was stored. docs/definitions.md
describes each name.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from patchbay.old_paths import install

if TYPE_CHECKING:
    from patchbay.documents import jane as jane
    from patchbay.documents.errors import BadPath as BadPath
    from patchbay.documents.errors import NoDocument as NoDocument
    from patchbay.documents.errors import Unreadable as Unreadable
    from patchbay.errors import PatchbayError as PatchbayError
    from patchbay.errors import ProtocolError as ProtocolError
    from patchbay.errors import ResourceNotFound as ResourceNotFound
    from patchbay.errors import ToolFailed as ToolFailed
    from patchbay.events import Data as Data
    from patchbay.events import Question as Question
    from patchbay.processes.program import Command as Command
    from patchbay.processes.program import run as run

__version__ = "0.1.0"

STARTED = time.monotonic()
"""The `time.monotonic()` time at which this process, or the process that it was forked from, loaded the program."""

EXPORTS = {
    "BadPath": "patchbay.documents.errors",
    "Command": "patchbay.processes.program",
    "Data": "patchbay.events",
    "NoDocument": "patchbay.documents.errors",
    "PatchbayError": "patchbay.errors",
    "ProtocolError": "patchbay.errors",
    "Question": "patchbay.events",
    "ResourceNotFound": "patchbay.errors",
    "ToolFailed": "patchbay.errors",
    "Unreadable": "patchbay.documents.errors",
    "jane": "patchbay.documents.jane",
    "run": "patchbay.processes.program",
}
"""Name -> the module that defines it, for the names that authors may import. Each module loads at the first use."""


def __getattr__(name: str) -> Any:
    if name not in EXPORTS:
        raise AttributeError(f"module 'patchbay' has no attribute {name!r}")
    module = import_module(EXPORTS[name])
    value = module if EXPORTS[name].endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})


install()
