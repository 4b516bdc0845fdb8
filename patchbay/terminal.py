"""What a standard stream is: a terminal or not, with colours or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_terminal(stream: Any) -> bool:
    """Whether a standard stream is a terminal; False for a closed stream, for which Python has None."""
    return stream is not None and bool(stream.isatty())


def choose_color(environ: Mapping[str, str]) -> bool | None:
    """Return whether text for people has colours: True and False hold everywhere, None is only on a terminal.

    `NO_COLOR` decides before `FORCE_COLOR`, and both before `TERM=dumb`; an empty variable counts as not set, and
    `FORCE_COLOR=0` as "no colours", as in programs of Node.js.
    Sources: https://no-color.org, https://force-color.org.
    """
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR")
    if forced:
        return forced.lower() not in ("0", "false")
    return False if is_dumb(environ) else None


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal cannot move its cursor and has no colours (`TERM=dumb`)."""
    return environ.get("TERM") == "dumb"
