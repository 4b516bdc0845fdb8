"""The command line: the hub (`patchbay serve`, `stdio`, ...) and the client (`patchbay inspect`, ..., also as `jn`).

Only this folder imports click. Exit codes are in `exit_codes.py`. An error of the user is one sentence on standard
error. Each command is imported when it is used: a stage of a pipeline does not import the hub.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchbay.cli.commands.client import jn
    from patchbay.cli.commands.patchbay import main

__all__ = ["jn", "main"]

PROGRAMS = {"main": "patchbay.cli.commands.patchbay", "jn": "patchbay.cli.commands.client"}


def __getattr__(name: str) -> Any:
    if name in PROGRAMS:
        return getattr(import_module(PROGRAMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
