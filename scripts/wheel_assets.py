"""A build hook of Hatchling: puts the shipped files into the wheel, below `patchbay/assets/`.

An editable installation does not need them, because it uses the files of the checkout (`patchbay/assets.py`).
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = ("reference_templates", "static", "templates")


class WheelAssets(BuildHookInterface[Any]):
    """Adds the shipped folders to a standard wheel."""

    PLUGIN_NAME = "wheel-assets"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include. `version` is "standard" or "editable"; `build_data` is changed in place."""
        if version == "standard":
            build_data["force_include"] |= {folder: f"patchbay/assets/{folder}" for folder in SHIPPED}
