"""Python definitions as live modules: compiled and run once per CID, at the first call, on a runner thread.

So an import that hangs ends with the call's deadline, and one that fails is told as the tool's
failure; the next call tries again. A failing definition leaves nothing behind.
Sources: DESIGN sections 4 and 6; REQUIREMENTS V-F5, T12.5.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import weakref
from functools import lru_cache
from types import ModuleType

from patchbay.errors import ToolFailed
from patchbay.kinds.python.arguments import Function
from patchbay.kinds.python.runner_threads import Pool

KEPT = 256
"""How many definitions are kept live; the one not used for longest goes."""

LOAD_POLL_SECONDS = 0.01
"""Seconds between two looks at whether another thread has loaded the definition."""


class Definition:
    """One version of one definition: its module, its functions, its threads."""

    def __init__(self, source: bytes, cid: str, name: str) -> None:
        self.name = name
        self.pool = Pool(name)
        self._source = source
        self._module_name = f"definition_{cid}"
        self._file = f"<{name}.py>"
        self._lock = threading.Lock()
        self._loader: threading.Thread | None = None
        self._module: ModuleType | None = None
        self._functions: dict[str, Function] = {}

    def function(self, name: str) -> Function:
        """A function of the module, ready to be called. Raises ToolFailed when it cannot be loaded or is not there."""
        found = self._functions.get(name)
        if found is None:
            target = getattr(self._loaded(), name, None)
            if not callable(target):
                raise ToolFailed(f"{self.name} has no function {name!r}")
            found = self._functions[name] = Function(name, target)
        return found

    def load(self) -> None:
        """Run the source unless that has been done. Raises ToolFailed when it cannot be loaded."""
        self._loaded()

    def _loaded(self) -> ModuleType:
        while self._module is None:
            if self._claim():
                try:
                    self._module = self._run()
                finally:
                    self._loader = None
            else:
                time.sleep(LOAD_POLL_SECONDS)
        return self._module

    def _claim(self) -> bool:
        """Become the one that loads, unless another is at it. No lock is held while loading: one that is
        stopped in an unlucky moment would keep it, while a thread that is stopped is sure to end.
        """
        with self._lock:
            if self._loader is not None and self._loader.is_alive():
                return False
            self._loader = threading.current_thread()
            return True

    def _run(self) -> ModuleType:
        """Run the source in a fresh module, known to `sys.modules` because dataclasses and pydantic look there."""
        module = ModuleType(self._module_name)
        module.__file__ = self._file
        sys.modules[module.__name__] = module
        loaded = False
        try:
            exec(compile(self._source, self._file, "exec", dont_inherit=True), module.__dict__)
            loaded = True
        except Exception as problem:
            raise ToolFailed(f"{self.name} cannot be loaded: {self._told(problem)}") from problem
        finally:
            if not loaded:
                sys.modules.pop(module.__name__, None)
        weakref.finalize(self, _forget, module.__name__, module).atexit = False
        return module

    def _told(self, problem: Exception) -> str:
        """Type, message and, where it is known, line of what went wrong."""
        if isinstance(problem, SyntaxError):
            return f"{type(problem).__name__}: {problem.msg} (line {problem.lineno})"
        frames = traceback.extract_tb(problem.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == self._file), None)
        where = f" (line {line})" if line is not None else ""
        return f"{type(problem).__name__}: {problem}{where}"


def _forget(name: str, module: ModuleType) -> None:
    if sys.modules.get(name) is module:
        del sys.modules[name]


class _Source:
    """Source bytes that compare by their CID, so that the cache below holds one definition per CID."""

    __slots__ = ("cid", "data", "name")

    def __init__(self, data: bytes, cid: str, name: str) -> None:
        self.data, self.cid, self.name = data, cid, name

    def __hash__(self) -> int:
        return hash(self.cid)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source) and self.cid == other.cid


@lru_cache(maxsize=KEPT)
def _definition(source: _Source) -> Definition:
    return Definition(source.data, source.cid, source.name)


def definition_of(source: bytes, cid: str, name: str) -> Definition:
    """The live definition of a CID. `name` is for messages; servers that share a CID share one module."""
    return _definition(_Source(source, cid, name))
