"""Whether a standard stream is a terminal."""

from __future__ import annotations

from typing import Any


def is_terminal(stream: Any) -> bool:
    """Whether a standard stream is a terminal; a closed one, which Python has as None, is none."""
    return stream is not None and bool(stream.isatty())
