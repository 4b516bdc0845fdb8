"""Keeps old module paths importable for stored definitions.

A definition that is pinned by its CID runs as it was stored. So every path that a shipped definition has imported stays
importable. Each import of an old path gives a DeprecationWarning with the new path. New definitions import from
`patchbay` itself (docs/definitions.md).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OLD_PATHS: Mapping[str, str] = {
    "patchbay.handlers.processes": "patchbay.processes.program",
    "patchbay.library.errors": "patchbay.documents.errors",
    "patchbay.library.jane": "patchbay.documents.jane",
}
"""Old module path -> the module that defines its names now."""

OLD_PACKAGES = {old.rpartition(".")[0] for old in OLD_PATHS}
"""The packages of the old paths. Python imports them before the modules in them."""

RENAMED: Mapping[str, Mapping[str, str]] = {}
"""Old module path -> old name -> new name, for names that have changed."""


class OldPathFinder(MetaPathFinder, Loader):
    """Finds the modules of OLD_PATHS. Python asks it after every other finder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of an old module; None for every other name."""
        if fullname not in OLD_PATHS and fullname not in OLD_PACKAGES:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in OLD_PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        """Give the old module the names of the new module, and warn."""
        old = module.__name__
        if old in OLD_PACKAGES:
            return
        new, renamed = OLD_PATHS[old], RENAMED.get(old, {})

        def find_name(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(import_module(new), renamed.get(name, name))

        module.__dict__["__getattr__"] = find_name
        warnings.warn(f"{old} has moved to {new}; import from patchbay instead", DeprecationWarning, stacklevel=2)


def install() -> None:
    """Let Python find the old paths. Calling it again changes nothing."""
    if not any(isinstance(finder, OldPathFinder) for finder in sys.meta_path):
        sys.meta_path.append(OldPathFinder())
