"""The command `patchbay settings`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.options import (
    SETTING_FIELDS,
    SETTING_ORDER,
    find_source,
    flag_name,
    format_setting,
    load_settings,
    variable_name,
    with_settings,
)
from patchbay.cli.terminal.messages import fail, format_rows
from patchbay.errors import ConfigError
from patchbay.settings import Settings


@click.command("settings", epilog=exit_codes.with_examples("patchbay settings", "patchbay settings --json"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
@with_settings
@click.pass_context
def settings_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List all settings with value, source and default."""
    try:
        settings = load_settings(context)
    except ConfigError as problem:
        fail(problem.message, exit_codes.USAGE)
    rows = [describe_setting(context, settings, name) for name in SETTING_ORDER]
    click.echo(json.dumps(rows, indent=2) if as_json else format_table(rows))


def format_absolute(value: Any) -> str:
    """Format a value as in the environment; folders have their absolute path."""
    return str(value) if isinstance(value, Path) else format_setting(value)


def describe_setting(context: click.Context, settings: Settings, name: str) -> dict[str, Any]:
    """Describe one setting as a JSON object, with values as in the environment."""
    row = SETTING_FIELDS[name]
    return {
        "name": name,
        "value": format_absolute(getattr(settings, name)),
        "source": find_source(context, name),
        "default": format_setting(row.default),
        "flag": flag_name(name),
        "variable": variable_name(name),
        "unit": row.metadata["unit"],
        "help": row.metadata["help"],
    }


def format_table(rows: list[dict[str, Any]]) -> str:
    """Format rows as a table with aligned columns and titles."""
    columns = ("name", "value", "source", "default", "unit")
    return format_rows([columns, *(tuple(row[column] or "-" for column in columns) for row in rows)])
