"""Python definitions as loaded modules: compiled and run once per CID, at the first call, on a runner thread.

An import that hangs therefore ends with the call's deadline, and a failing one is the tool's failure; the next call
tries again. A definition that fails to load leaves no module behind.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import weakref
from functools import lru_cache
from types import ModuleType

from patchbay.errors import PatchbayError, ServerFailed
from patchbay.kinds.python.arguments import Function
from patchbay.kinds.python.blocking import may_block
from patchbay.raised.exceptions import Raised, find_raised
from patchbay.threads.runner_threads import Pool

MAX_LOADED_DEFINITIONS = 256
"""Maximum number of loaded definitions; the least recently used one is dropped."""

LOAD_POLL_SECONDS = 0.01
"""Seconds between two checks whether another thread has loaded the definition."""


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
        """Return a function of the module, ready to be called. Raises ToolFailed when it cannot be loaded or is
        missing.
        """
        found = self._functions.get(name)
        if found is None:
            target = getattr(self._load_module(), name, None)
            if not callable(target):
                raise ServerFailed(f"{self.name} has no function {name!r}")
            found = self._functions[name] = Function(name, target)
        return found

    def is_pure(self, name: str) -> bool:
        """Whether a function uses nothing outside Python: no file, process, output, lock or clock (`blocking.py`).

        Raises ToolFailed as `function` does.
        """
        function = self.function(name)
        return function.is_plain and not may_block(function.call)

    def load(self) -> None:
        """Run the source unless it was run already. Raises ToolFailed when it fails."""
        self._load_module()

    def find_raised(self, problem: BaseException) -> Raised:
        """Return an exception that this definition raised, with the frames of its code, for the operator."""
        try:
            return find_raised(problem, self._source.decode("utf-8", "replace"), self._file, PatchbayError)
        except MemoryError:  # the process has none left
            return ()

    def _load_module(self) -> ModuleType:
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
        """Become the loading thread, unless another one is loading. No lock is held while loading: a thread that is
        stopped at a bad moment would keep it, while a stopped thread always ends.
        """
        with self._lock:
            if self._loader is not None and self._loader.is_alive():
                return False
            self._loader = threading.current_thread()
            return True

    def _run(self) -> ModuleType:
        """Run the source in a new module, registered in `sys.modules` because dataclasses and pydantic look there."""
        module = ModuleType(self._module_name)
        module.__file__ = self._file
        sys.modules[module.__name__] = module
        loaded = False
        try:
            exec(compile(self._source, self._file, "exec", dont_inherit=True), module.__dict__)
            loaded = True
        except Exception as problem:
            raise ServerFailed(f"{self.name} cannot be loaded: {self._describe(problem)}") from problem
        finally:
            if not loaded:
                sys.modules.pop(module.__name__, None)
        weakref.finalize(self, _forget, module.__name__, module).atexit = False
        return module

    def _describe(self, problem: Exception) -> str:
        """Return type, message and, where it is known, line of an error."""
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
    """Source bytes that compare by their CID, so that the cache holds one definition per CID."""

    __slots__ = ("cid", "data", "name")

    def __init__(self, data: bytes, cid: str, name: str) -> None:
        self.data, self.cid, self.name = data, cid, name

    def __hash__(self) -> int:
        return hash(self.cid)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source) and self.cid == other.cid


@lru_cache(maxsize=MAX_LOADED_DEFINITIONS)
def _definition(source: _Source) -> Definition:
    return Definition(source.data, source.cid, source.name)


def definition_of(source: bytes, cid: str, name: str) -> Definition:
    """Return the loaded definition of a CID. `name` is for messages; servers with one CID share one module."""
    return _definition(_Source(source, cid, name))
