"""Tests whether a standard stream is a terminal."""

from __future__ import annotations

from typing import Any


def is_terminal(stream: Any) -> bool:
    """Whether a standard stream is a terminal; False for a closed stream, for which Python has None."""
    return stream is not None and bool(stream.isatty())
