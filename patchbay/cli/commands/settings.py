"""The command `patchbay settings`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.messages import fail
from patchbay.cli.options import (
    ORDER,
    ROWS,
    flag_of,
    format_setting,
    settings_of,
    source_of,
    variable_of,
    with_settings,
)
from patchbay.errors import ConfigError
from patchbay.settings import Settings


@click.command("settings", epilog=exit_codes.with_examples("patchbay settings", "patchbay settings --json"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
@with_settings
@click.pass_context
def settings_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List every setting: its value, where that came from, and its default."""
    try:
        settings = settings_of(context)
    except ConfigError as problem:
        fail(problem.message, exit_codes.USAGE)
    rows = [described(context, settings, name) for name in ORDER]
    click.echo(json.dumps(rows, indent=2) if as_json else table(rows))


def absolute(value: Any) -> str:
    """A value as it would be written in the environment; a folder by its whole path."""
    return str(value) if isinstance(value, Path) else format_setting(value)


def described(context: click.Context, settings: Settings, name: str) -> dict[str, Any]:
    """One setting as a JSON object; its values as they would be written in the environment."""
    row = ROWS[name]
    return {
        "name": name,
        "value": absolute(getattr(settings, name)),
        "source": source_of(context, name),
        "default": format_setting(row.default),
        "flag": flag_of(name),
        "variable": variable_of(name),
        "unit": row.metadata["unit"],
        "help": row.metadata["help"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as aligned columns, under their titles."""
    columns = ("name", "value", "source", "default", "unit")
    lines = [columns, *(tuple(row[column] or "-" for column in columns) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
