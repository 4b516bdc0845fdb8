"""Imports that break a rule of the house today: tests/test_import_ratchets.py allows these alone.

Both lists may only shrink. When an import goes away, its line goes away.
"""

from __future__ import annotations

KIND_IMPORTS: dict[str, tuple[str, ...]] = {
    "patchbay/app.py": ("python.workers.worker_pool",),
    "patchbay/assembly.py": ("python.workers.worker_pool",),
    "patchbay/cli/server_directory.py": ("python.workers.worker_pool",),
    "patchbay/protocol/hub_services.py": ("python.workers.worker_pool",),
    "patchbay/web/mounting/pasting.py": ("openapi.configuration",),
}
"""The modules of one kind, named below `patchbay/kinds/`, that each file outside `kinds/` imports."""

MUTUAL_FOLDERS: dict[str, tuple[str, ...]] = {
    "patchbay/access": ("credentials",),
    "patchbay/cli": ("commands",),
    "patchbay/client": (
        "addresses",
        "connection",
        "profiles",
        "sources",
    ),
    "patchbay/client/connection": ("programs",),
    "patchbay/kinds/python": ("workers",),
    "patchbay/processes": ("confinement",),
    "patchbay/protocol": (
        "event_methods",
        "jobs",
        "schedules",
        "streams",
        "tasks",
    ),
    "patchbay/rooms": ("servers",),
    "patchbay/stores": (
        "postgresql",
        "sqlite",
    ),
}
"""The subfolders of each folder that import from it and that it imports from."""
