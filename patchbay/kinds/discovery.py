"""From the bytes of a definition to descriptors; nothing is imported or run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchbay.descriptors import Found
from patchbay.errors import ConfigError
from patchbay.kinds.python.discovery.functions import python
from patchbay.kinds.shell.discovery import detect, shell

__all__ = ["LARGEST", "detect", "discover"]

LARGEST = 1024 * 1024
"""Bytes of a definition that is read."""

READERS: Mapping[str, Callable[[str, str], Found]] = {"python": python, "shell": shell}


def discover(kind: str, name: str, source: bytes) -> Found:
    """What a definition of some kind (`python`, `shell`, `static`) offers under the server's `name`.

    A function that cannot be listed is a Problem. A definition that cannot be read at all raises
    ConfigError, which names the line: broken syntax, bytes that are not UTF-8, NUL bytes, more than LARGEST bytes.
    """
    if kind == "static":
        return Found()
    if kind not in READERS:
        raise ConfigError(name, "kind", f"expected python, shell or static, got {kind!r}")
    text = decoded(name, source)
    try:
        return READERS[kind](name, text)
    except RecursionError as problem:
        raise ConfigError(name, "line 1", "nested too deeply to be read; expected a simpler definition") from problem


def decoded(name: str, source: bytes) -> str:
    """A definition as text, without a byte order mark. Raises ConfigError naming the line."""
    if len(source) > LARGEST:
        raise ConfigError(name, "line 1", f"expected at most {LARGEST} bytes, got {len(source)}")
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = source.count(b"\n", 0, problem.start) + 1
        raise ConfigError(
            name, f"line {line}", f"expected UTF-8 text, got byte 0x{source[problem.start]:02x}: save it as UTF-8"
        ) from problem
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ConfigError(name, f"line {line}", "expected text, got a NUL byte")
    return text
