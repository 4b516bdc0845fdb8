"""The places of a hub from which programs of strangers are kept away, by its settings.

The hub itself and the commands of the same user keep every program that they start away from the same places.
"""

from __future__ import annotations

import sys
from pathlib import Path

from patchbay.assets import PACKAGE
from patchbay.client.addresses.secrets import is_evident_secret
from patchbay.processes.confinement.programs import ProgramPlaces
from patchbay.settings import Settings, hub_places

PROGRAMS = "programs"
"""The folder below the data folder that holds a folder for each confined program."""


def program_places(settings: Settings) -> ProgramPlaces:
    """Return the places of a hub that starts programs of strangers."""
    return ProgramPlaces(
        settings.data / PROGRAMS,
        hub_places(settings),
        (PACKAGE, Path(sys.prefix)),
        settings.protections,
        settings.confine,
        settings.writes,
        is_evident_secret,
    )
