"""Writes docs/settings.md from the settings table in patchbay/settings.py.

python scripts/settings_page.py            writes the page
python scripts/settings_page.py --check    exits 1 when the page is stale
"""

from __future__ import annotations

import sys
from pathlib import Path

from patchbay.cli.options import SETTING_FIELDS, SETTING_ORDER, flag_name, format_setting, variable_name
from scripts.generated_files import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

TOP = """\
# Settings

Written by `scripts/settings_page.py`; do not edit. Every setting is an option of `patchbay serve` and a variable of the
environment; the option wins. `patchbay settings` lists the values in force and where each came from. Lists are written
with commas.

| Option | Variable | Default | What |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page in Markdown."""
    return TOP + "".join(f"{row(name)}\n" for name in SETTING_ORDER)


def row(name: str) -> str:
    """One line of the table."""
    setting = SETTING_FIELDS[name]
    default = f"`{format_setting(setting.default)}`" if format_setting(setting.default) else "none"
    unit = f" {setting.metadata['unit']}" if setting.metadata["unit"] else ""
    choices = ", ".join(f"`{choice}`" for choice in setting.metadata["choices"])
    what = setting.metadata["help"] + (f" One of {choices}." if choices else "")
    return f"| `{flag_name(name)}` | `{variable_name(name)}` | {default}{unit} | {what} |"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, __doc__))
