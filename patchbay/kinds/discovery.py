"""Discover descriptors in the bytes of a definition, without importing or running it."""

from __future__ import annotations

from patchbay.descriptors import Discovery
from patchbay.errors import ConfigError
from patchbay.kind import DEFAULT_KIND, definition_kinds, recognized_kind

MAX_DEFINITION_BYTES = 1024 * 1024
"""Maximum bytes of a definition."""


def discover(kind: str, name: str, source: bytes) -> Discovery:
    """Return the descriptors of a definition under the server's `name`.

    A function that cannot be listed is a Problem. An unreadable definition raises ConfigError, which names the line:
    invalid syntax, bytes that are not UTF-8, NUL bytes, more than MAX_DEFINITION_BYTES bytes.
    """
    kinds = {each.name: each for each in definition_kinds()}
    if kind not in kinds:
        *others, last = kinds
        raise ConfigError(name, "kind", f"expected {', '.join(others)} or {last}, got {kind!r}")
    read = kinds[kind].discover
    if read is None:
        return Discovery()
    text = decode_definition(name, source)
    try:
        return read(name, text)
    except RecursionError as problem:
        raise ConfigError(name, "line 1", "nested too deeply to be read; expected a simpler definition") from problem


def detect_kind(source: bytes) -> str:
    """Return the kind of a definition without a file name: the kind that recognizes it, else Python."""
    found = recognized_kind(source)
    return found.name if found is not None else DEFAULT_KIND


def decode_definition(name: str, source: bytes) -> str:
    """Return a definition as text, without a byte order mark. Raises ConfigError that names the line."""
    if len(source) > MAX_DEFINITION_BYTES:
        raise ConfigError(name, "line 1", f"expected at most {MAX_DEFINITION_BYTES} bytes, got {len(source)}")
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
