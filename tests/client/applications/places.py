"""The samples of all applications, and the places of their files in a folder of a test.

Each sample is written after the documentation that the row of the application names (`Application.source`).
"""

from __future__ import annotations

from pathlib import Path

from patchbay.client.applications.applications import APPLICATIONS, ROWS, Machine
from patchbay.client.applications.reading import ClientFile

SAMPLES = Path(__file__).with_name("samples")
NAMES = tuple(row.name for row in ROWS)

NO_FOLDERS = dict.fromkeys(
    (
        *("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "CLINE_DIR", "CLINE_DATA_DIR"),
        *("CLINE_MCP_SETTINGS_PATH", "COPILOT_HOME", "CONTINUE_GLOBAL_DIR"),
    ),
    "",
)
"""Variables that would move files out of the home of a test."""


def machine(home: Path, platform: str = "linux") -> Machine:
    """The places of a user with this home."""
    return Machine(platform, home, {})


def sample(name: str) -> bytes:
    """The sample of an application."""
    return next(SAMPLES.glob(f"{name}.*")).read_bytes()


def place_sample(name: str, home: Path) -> ClientFile:
    """Write the sample of an application where the application has it."""
    file = ClientFile(APPLICATIONS[name], APPLICATIONS[name].file(machine(home)))
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(sample(name))
    return file
