"""A command-line option for each setting, and the settings of a command.

The setting `inline_limit` has the option `--inline-limit` and the variable `PATCHBAY_INLINE_LIMIT`. Options keep values
as text; only `Settings.load` converts them, so that options and variables give the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from patchbay.assets import CHECKOUT
from patchbay.settings import PREFIX, Settings

Command = TypeVar("Command", bound=Callable[..., Any])

SETTING_FIELDS: dict[str, Field[Any]] = {row.name: row for row in Settings.rows()}

FIRST_SETTINGS = ("port", "host", "data", "servers", "boot", "workers", "threads")
"""The settings at the top of the help page; the others follow in the order of the table."""

HUB_SETTINGS = ("data", "servers")
"""The settings that name the hub of a command."""

SETTING_ORDER = (*FIRST_SETTINGS, *(name for name in SETTING_FIELDS if name not in FIRST_SETTINGS))


def flag_name(name: str) -> str:
    """The option of a setting: `inline_limit` -> `--inline-limit`."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """The variable of a setting: `inline_limit` -> `PATCHBAY_INLINE_LIMIT`."""
    return PREFIX + name.upper()


def format_setting(value: Any) -> str:
    """Format a value as in the environment; a folder of the checkout has its relative path."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, Path) and CHECKOUT is not None and value.is_relative_to(CHECKOUT):
        return str(value.relative_to(CHECKOUT))
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_settings(command: Command) -> Command:
    """Add one option for each setting to a click command; its help page shows all of them."""
    return with_settings_in_help(*SETTING_ORDER)(command)


def with_hub(command: Command) -> Command:
    """Add the options of a command that works on a hub: its help page shows only those that name the hub."""
    return with_settings_in_help(*HUB_SETTINGS)(command)


def with_settings_in_help(*shown: str, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Add one option for each setting to a click command; its help page shows only the settings `shown`.

    `without` are settings whose option has another meaning in this command; they come from the environment only.
    """

    def add(command: Command) -> Command:
        for name in reversed([one for one in SETTING_ORDER if one not in without]):
            command = _option(SETTING_FIELDS[name], is_hidden=name not in shown)(command)
        return command

    return add


def _option(row: Field[Any], is_hidden: bool = False) -> Callable[[Command], Command]:
    kind = {int: "NUMBER", float: "NUMBER", tuple: "LIST"}.get(type(row.default), "TEXT")
    kind = "PATH" if isinstance(row.default, Path) else kind
    default = f"default {format_setting(row.default) or 'none'}"
    about = ", ".join(part for part in (row.metadata["unit"], " or ".join(row.metadata["choices"]), default) if part)
    return click.option(
        flag_name(row.name),
        envvar=variable_name(row.name),
        show_envvar=True,
        metavar=kind,
        hidden=is_hidden,
        help=f"{row.metadata['help']} [{about}]",
    )


def load_settings(context: click.Context) -> Settings:
    """Load the settings of a command: options before environment before defaults. Raises ConfigError."""
    given = {name: value for name, value in context.params.items() if find_source(context, name) == "flag"}
    return Settings.load({name: value for name, value in given.items() if name in SETTING_FIELDS})


def find_source(context: click.Context, name: str) -> str:
    """The source of a setting's value: `flag`, `environment` or `default`."""
    found = context.get_parameter_source(name)
    if found is ParameterSource.COMMANDLINE:
        return "flag"
    return "environment" if found is ParameterSource.ENVIRONMENT else "default"
