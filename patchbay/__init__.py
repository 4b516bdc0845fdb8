"""Patchbay: a hub that makes an MCP endpoint out of anything plugged in.

What this module exports is the contract for authors: a definition imports from `patchbay` and from nowhere below it.
These names stay, because a stored definition is served as it was written for as long as its CID is asked for.
docs/definitions.md describes each of them.
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
"""When this process, or the one it was forked from, loaded the program: a `time.monotonic()` moment."""

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
"""What authors may import beside `__version__` and `STARTED`, and the module that has it; loaded when it is used."""


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
