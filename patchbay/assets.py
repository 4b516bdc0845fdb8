"""Finds the files that ship with the hub, and the folder for the hub's own files.

In a checkout the shipped files stand at the top level, and `data/` and `servers/` stand beside them. In an installed
package the build puts the shipped files into `patchbay/assets/`, and the platform names the folder for the hub's own
files (`~/.local/share/patchbay` on Linux). Nothing is created here.
"""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_data_path

PACKAGE = Path(__file__).resolve().parent


def find_checkout(package: Path) -> Path | None:
    """Return the top folder of the checkout that holds this package; None for an installed package."""
    top = package.parent
    return top if (top / "pyproject.toml").is_file() and (top / "reference_templates").is_dir() else None


CHECKOUT = find_checkout(PACKAGE)
ASSETS = CHECKOUT or PACKAGE / "assets"
REFERENCE_TEMPLATES = ASSETS / "reference_templates"
TEMPLATES = ASSETS / "templates"
HOME = CHECKOUT or user_data_path("patchbay", appauthor=False)
"""The folder of the hub's own files: its `data` and its `servers`, unless the settings name others."""
