"""One command-line option for every row of the settings table, and the settings that come out.

A row `inline_limit` is `--inline-limit` and `PATCHBAY_INLINE_LIMIT`. Values are text here: `Settings.load`
alone converts them, so that a flag and a variable are refused with the same sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from patchbay.assets import CHECKOUT
from patchbay.settings import PREFIX, Settings

Command = TypeVar("Command", bound=Callable[..., Any])

ROWS: dict[str, Field[Any]] = {row.name: row for row in fields(Settings)}

FIRST = ("port", "host", "data", "servers", "boot", "workers", "threads")
"""What is asked for most, in the order of the help page; the rest follows in the order of the table."""

ORDER = (*FIRST, *(name for name in ROWS if name not in FIRST))


def flag_of(name: str) -> str:
    """`inline_limit` -> `--inline-limit`."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """`inline_limit` -> `PATCHBAY_INLINE_LIMIT`."""
    return PREFIX + name.upper()


def format_setting(value: Any) -> str:
    """A setting's value as it would be written in the environment; a folder of the installation by its short name."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, Path) and CHECKOUT is not None and value.is_relative_to(CHECKOUT):
        return str(value.relative_to(CHECKOUT))
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_settings(command: Command) -> Command:
    """Give a click command one option for every setting."""
    for name in reversed(ORDER):
        command = _option(ROWS[name])(command)
    return command


def _option(row: Field[Any]) -> Callable[[Command], Command]:
    kind = {int: "NUMBER", float: "NUMBER", tuple: "LIST"}.get(type(row.default), "TEXT")
    kind = "PATH" if isinstance(row.default, Path) else kind
    default = f"default {format_setting(row.default) or 'none'}"
    about = ", ".join(part for part in (row.metadata["unit"], " or ".join(row.metadata["choices"]), default) if part)
    return click.option(
        flag_of(row.name),
        envvar=variable_of(row.name),
        show_envvar=True,
        metavar=kind,
        help=f"{row.metadata['help']} [{about}]",
    )


def settings_of(context: click.Context) -> Settings:
    """The settings of this command: flags over environment over defaults. Raises ConfigError."""
    given = {name: value for name, value in context.params.items() if source_of(context, name) == "flag"}
    return Settings.load({name: value for name, value in given.items() if name in ROWS})


def source_of(context: click.Context, name: str) -> str:
    """Where a setting's value came from: `flag`, `environment` or `default`."""
    found = context.get_parameter_source(name)
    if found is ParameterSource.COMMANDLINE:
        return "flag"
    return "environment" if found is ParameterSource.ENVIRONMENT else "default"
