"""One row of the table of settings, and the value of a setting from a text.

`patchbay/settings.py` has the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any

from patchbay.errors import ConfigError


def setting(
    default: Any,
    help: str,
    unit: str = "",
    least: float = 0,
    most: float = math.inf,
    choices: tuple[str, ...] = (),
    alias: str = "",
    is_secret: bool = False,
) -> Any:
    """Return the field of a setting: its default, its help, its unit, the least and the greatest value.

    A text has to be one of `choices`. `alias` is a further name of its variable in the environment. `is_secret` says
    that nothing shows the value, unless it is a reference to a variable.
    """
    limits = {"least": least, "most": most, "choices": choices, "alias": alias, "is_secret": is_secret}
    return field(default=default, metadata={"help": help, "unit": unit, **limits})


def converted(row: Field[Any], value: Any, where: str) -> Any:
    """Return a setting's value in its type, from text or from a value of that type. Raises ConfigError."""
    if not isinstance(value, str):
        return value
    kind: type[Any] = type(row.default)
    try:
        if kind is tuple:
            parts = tuple(part.strip() for part in value.split(",") if part.strip())
            for part in parts:
                _check(row.metadata, part, where)
            return parts
        if kind in (int, float) and kind(value) < 0:
            raise ValueError("negative")
        value = kind(value)
    except ValueError as problem:
        expected = {int: "a whole number, 0 or more", float: "a number, 0 or more"}.get(kind, "a value")
        raise ConfigError(where, "", f"expected {expected}, got {value!r}") from problem
    _check(row.metadata, value, where)
    return value


def _check(limits: Mapping[str, Any], value: Any, where: str) -> None:
    # This form of the comparison also refuses NaN.
    if isinstance(value, (int, float)) and not limits["least"] <= value <= limits["most"]:
        expected = f"expected a number from {limits['least']} to {limits['most']:g}"
        raise ConfigError(where, "", f"{expected}, got {value}")
    choices = limits["choices"]
    addresses = tuple(choice.partition("://")[0] + "://" for choice in choices if "://" in choice)
    if choices and value not in choices and not (addresses and value.startswith(addresses)):
        raise ConfigError(where, "", f"expected one of {', '.join(choices)}; got {value!r}")
