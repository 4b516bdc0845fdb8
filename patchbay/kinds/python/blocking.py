"""Whether a Python function can wait for something outside Python: a file, a socket, a lock, the clock.

Python code can be interrupted between two instructions, a wait inside C code cannot. A function may wait unless every
name it uses is known: operations on JSON values and constants, safe built-in functions, functions of `SAFE_MODULES`,
and functions of the same module with the same property. A function that catches every exception counts as one that may
wait, because it cannot be interrupted.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

SAFE_MODULES = frozenset(
    (
        *("base64", "binascii", "bisect", "cmath", "collections", "colorsys", "datetime", "decimal"),
        *("difflib", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "operator"),
        *("random", "re", "statistics", "string", "textwrap", "unicodedata", "urllib.parse"),
    )
)
"""Modules whose own functions and classes compute, print nothing and never wait."""

UNSAFE_BUILTINS = frozenset(
    (
        *("__build_class__", "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr"),
        *("globals", "help", "input", "locals", "memoryview", "open", "print", "setattr", "super", "type", "vars"),
        *("BaseException", "BaseExceptionGroup", "SystemExit"),
    )
)
"""Built-in names that wait, that use objects invisible in the code, or that catch the end of a call."""

UNSAFE_OPERATIONS = ("IMPORT_NAME", "IMPORT_FROM", "LOAD_BUILD_CLASS", "LOAD_NAME")
CONSTANTS = (str, bytes, int, float, complex, bool)
GLOBALS = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL")
NAMING_EXCEPTIONS = ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "BUILD_TUPLE")
"""Operations between the start of an `except` and its comparison."""

ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR")

MAX_FUNCTIONS = 50
"""Maximum number of functions that are checked for one."""

_SPECIAL_CALLS = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of the code of generators, coroutines and asynchronous generators."""


def may_block(call: Callable[..., Any]) -> bool:
    """Whether calling this with JSON values may wait for something outside Python; False is a guarantee."""
    known: list[FunctionType] = []
    if not _is_function(call, known) or known[0].__code__.co_flags & _SPECIAL_CALLS:
        return True
    # `known` grows during the iteration.
    return any(len(known) > MAX_FUNCTIONS or not _is_safe(function, known) for function in known)


def _is_safe(function: FunctionType, known: list[FunctionType]) -> bool:
    """Whether one function uses only safe names; functions that it calls are added to `known`."""
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if function.__closure__ or not all(value is None or _is_constant(value) for value in defaults):
        return False
    steps = [step for step in _instructions(function.__code__) if step.opname != "EXTENDED_ARG"]
    names = function.__globals__
    return _can_be_interrupted(steps) and all(
        _is_safe_step(step, after, names, known) for step, after in pairwise([*steps, None]) if step is not None
    )


def _can_be_interrupted(steps: Sequence[dis.Instruction]) -> bool:
    """Whether each `except` names its exceptions; a bare one, `finally` and `with` may catch all."""
    for place, step in enumerate(steps):
        if step.opname == "PUSH_EXC_INFO":
            behind = (after.opname for after in steps[place + 1 :])
            if next((name for name in behind if name not in NAMING_EXCEPTIONS), "") != "CHECK_EXC_MATCH":
                return False
    return True


def _is_safe_step(
    step: dis.Instruction, after: dis.Instruction | None, names: Mapping[str, Any], known: list[FunctionType]
) -> bool:
    """Whether one operation is safe; `after` is the one behind it."""
    if step.opname in UNSAFE_OPERATIONS:
        return False
    if step.opname in ATTRIBUTES:
        return not str(step.argval).startswith("_")
    if step.opname not in GLOBALS:
        return True
    name = step.argval
    if name not in names:
        return _is_safe_builtin(name)
    value = names[name]
    if isinstance(value, ModuleType):
        # A module is safe for what it has itself, not for the modules and functions that it imports.
        return after is not None and after.opname in ATTRIBUTES[:2] and _is_safe_member(value, str(after.argval))
    return _is_safe_value(value, known)


def _is_safe_member(module: ModuleType, name: str) -> bool:
    """Whether something of a module is its own function, class or constant, and the module is safe."""
    if module.__name__ not in SAFE_MODULES or sys.modules.get(module.__name__) is not module:
        return False
    value = getattr(module, name, None)
    if value is None or isinstance(value, ModuleType):
        return False
    origin = getattr(value, "__module__", None) or getattr(type(getattr(value, "__self__", value)), "__module__", "")
    return _is_constant(value) or _is_name_of_safe_module(origin)


def _is_name_of_safe_module(name: object) -> bool:
    """Whether this is the name of a safe module, of its part in C (`_json`), or of a module inside it."""
    own = str(name).lstrip("_")
    return own in SAFE_MODULES or any(own.startswith(f"{safe}.") for safe in SAFE_MODULES)


def _is_safe_builtin(name: str) -> bool:
    return name not in UNSAFE_BUILTINS and hasattr(builtins, name)


def _is_safe_value(value: Any, known: list[FunctionType]) -> bool:
    """Whether a global value is safe in every use."""
    if isinstance(value, (BuiltinFunctionType, FunctionType, type)) and _is_name_of_safe_module(value.__module__):
        # Any function may say that it is of a module: the module has to have it.
        return getattr(sys.modules.get(str(value.__module__)), value.__name__, None) is value
    return _is_constant(value) or _is_function(value, known)


def _is_constant(value: Any) -> bool:
    """Whether a value is of a plain type that never changes."""
    if type(value) in (tuple, frozenset):
        return all(_is_constant(item) for item in value)
    return type(value) in CONSTANTS


def _is_function(value: Any, known: list[FunctionType]) -> bool:
    """Whether this is a plain function; it is added to the functions to check."""
    if not isinstance(value, FunctionType):
        return False
    if value not in known:
        known.append(value)
    return True


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions of a function, and of functions defined in it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
